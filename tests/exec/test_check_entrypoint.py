"""The check of an entrypoint imports a class, and never trains."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from determined.exec.check_entrypoint import EXPLAINED, main
from tests.helpers.records import runs

CLASS = "from determined import core, pytorch\nclass Trial: ...\n"


@pytest.fixture(autouse=True)
def _restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("call", ["pytorch.init()", "core.init()"])
def test_a_script_without_the_guard_is_refused_with_both_solutions(
    call: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "unguarded.py").write_text(f"{CLASS}with {call} as context:\n    context.train.report_progress(0.5)\n")
    assert main(["unguarded:Trial"]) == EXPLAINED
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(f"unguarded calls {call} when it is imported")
    assert '`if __name__ == "__main__":`' in told
    assert "entrypoint: python3 unguarded.py" in told
    assert runs() == []


def test_a_script_with_the_guard_passes(tmp_path: Path) -> None:
    (tmp_path / "guarded.py").write_text(f"{CLASS}if __name__ == '__main__':\n    core.init()\n")
    assert main(["guarded:Trial"]) == 0


def test_a_script_that_ends_the_program_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ending.py").write_text("import sys\nsys.exit(0)\n")
    assert main(["ending:Trial"]) == EXPLAINED
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("ending ends the program when it is imported (exit code 0)")
