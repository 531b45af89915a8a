"""The model directory of an experiment as checkpoints contain it: programs, not data, secrets or accidents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from determined import code_copy


def copied(source: Path, *leave_out: Path) -> set[str]:
    target = source.with_name("copy")
    code_copy.copy_code(source, target, list(leave_out))
    return {file.relative_to(target).as_posix() for file in target.rglob("*") if not file.is_dir()}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    directory.mkdir()
    return directory


def test_rules(source: Path) -> None:
    for name in ("train.py", "package/data.json", ".env", "server.pem", "runs/events.out", "datasets/big.bin", "x.tmp"):
        file = source / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    (source / "weights.bin").write_bytes(bytes(2_000_000))  # data is kept: the user put it into the model directory
    (source / ".detignore").write_text("datasets/\n!.env\n")
    (source / ".gitignore").write_text("*.tmp\n")
    assert copied(source) == {"train.py", "package/data.json", "weights.bin"}


def test_what_is_left_out_by_the_caller(source: Path) -> None:
    for name in ("train.py", "records.db", "checkpoints/1/state"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    assert copied(source, source / "records.db", source / "checkpoints") == {"train.py"}


def test_links_and_pipes(source: Path, tmp_path: Path) -> None:
    (source / "train.py").touch()
    (tmp_path / "secret.txt").touch()
    (source / "outside.txt").symlink_to(tmp_path / "secret.txt")
    (source / "outside").symlink_to(tmp_path)
    os.mkfifo(source / "fifo")
    assert copied(source) == {"train.py"}


def test_an_ignore_file_that_is_a_pipe(source: Path) -> None:
    (source / "train.py").touch()
    os.mkfifo(source / ".detignore")
    assert copied(source) == {"train.py"}


def test_too_much_is_skipped_and_named(
    source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(code_copy, "MAX_BYTES", 1000)
    (source / "a.py").write_text("x")
    (source / "big.bin").write_bytes(b"x" * 2000)
    (source / "z.py").write_text("x")
    assert copied(source) == {"a.py", "z.py"}
    assert "big.bin" in caplog.text
