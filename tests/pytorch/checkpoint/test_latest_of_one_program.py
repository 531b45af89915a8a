"""`latest_checkpoint="latest"` finds the checkpoints of one program, or of one name, and no others."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from determined import core, pytorch
from determined.core.supervision.run_identity import run_identity, run_name, shown_identity
from determined.store.process import this_user
from determined.user_code.program import Program
from tests.helpers import warm
from tests.helpers.records import opened, runs
from tests.helpers.trials import LineTrial, checkpoints, fit

REPOSITORY = Path(__file__).resolve().parents[3]

# Prints how many checkpoints "latest" chooses from, continues from the newest, and saves one more. Without torch, which
# takes most of the time of such a process.
TRAIN = """
from determined import core

with core.init(tensorboard_mode=core.TensorboardMode.MANUAL) as context:
    found = context.checkpoint.of_the_last_run()
    print(len(found))
    context.begin_attempt(checkpoint=found[0] if found else None, steps_completed=len(found))
    with context.checkpoint.store_path({"steps_completed": len(found) + 1}) as (path, uuid):
        (path / "state").write_text("state")
"""

KERNEL = """
import os, sys, types
fake = types.ModuleType("IPython")
events = types.SimpleNamespace(register=lambda name, call: None, unregister=lambda name, call: None)
shell = types.SimpleNamespace(kernel=object(), events=events)
fake.get_ipython = lambda: shell
sys.modules["IPython"] = fake
main = types.ModuleType("__main__")
sys.modules["__main__"] = main
exec(sys.argv[1], main.__dict__)
"""


def run(*words: str, check: bool = True, **env: str) -> Any:
    start = subprocess.run if "-c" in words else warm.run  # a fork would run the text of -c from a file
    ran = start(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode == 0) == check, ran.stderr
    return ran.stdout.strip() if check else ran.stderr


def test_two_scripts_of_the_same_name(work_dir: Path) -> None:
    for name in ("a", "b"):
        (work_dir / name).mkdir()
        (work_dir / name / "train.py").write_text(TRAIN)
    assert run("a/train.py") == "0"
    assert run("b/train.py") == "0"
    assert run("a/train.py") == "1"
    # A name is independent of the directory, and has separate checkpoints.
    assert run("a/train.py", DET_RUN_NAME="mine") == "0"
    assert run("b/train.py", DET_RUN_NAME="mine") == "1"
    assert run("b/train.py") == "1"


def test_two_notebooks_and_one_without_a_path(work_dir: Path) -> None:
    (work_dir / "ipykernel_launcher.py").write_text(KERNEL)
    for name in ("a.ipynb", "b.ipynb"):
        (work_dir / name).write_text("{}")

    def notebook(name: str, *, check: bool = True) -> Any:
        return run("ipykernel_launcher.py", TRAIN, check=check, JPY_SESSION_NAME=str(work_dir / name))

    assert notebook("a.ipynb") == "0"
    assert notebook("b.ipynb") == "0"
    assert notebook("a.ipynb") == "1"
    refused = notebook("Console 1", check=False)
    assert "ValueError: latest_checkpoint='latest' cannot tell which checkpoints belong to this program" in refused


def test_code_typed_in_needs_a_name(work_dir: Path, data_home: Path) -> None:
    refused = run("-c", TRAIN, check=False)
    line = refused.strip().splitlines()[-1]
    for part in ("latest_checkpoint='latest'", "DET_RUN_NAME", "name='my-run'", "the id of a checkpoint"):
        assert part in line
    assert checkpoints(data_home) == []
    assert run("-c", TRAIN, DET_RUN_NAME="typed") == "0"
    assert run("-c", TRAIN, DET_RUN_NAME="typed") == "1"


def test_a_name_given_to_init_and_shown_in_lists(data_home: Path) -> None:
    def train(length: int, name: str | None) -> list[int]:
        options = {"name": name}
        return fit(
            LineTrial, max_length=pytorch.Batch(length), latest_checkpoint="latest", options=options
        ).batch_indices

    assert train(1, "mine") == [0]
    assert train(2, "yours") == [0, 1]
    assert train(3, None) == [0, 1, 2]
    assert train(2, "mine") == [1]
    with opened(data_home) as store:
        assert [row.name for row in store.experiments.list()][::-1][:2] == ["mine", "yours"]


@pytest.mark.parametrize(
    ("name", "error"),
    [("", ValueError), ("  ", ValueError), ("a\nb", ValueError), ("x" * 201, ValueError), (3, TypeError)],
)
def test_a_name_that_cannot_be_used_is_refused_before_anything_happens(
    name: Any, error: type[Exception], data_home: Path
) -> None:
    with pytest.raises(error, match="init: name must be"), pytorch.init(name=name):
        raise AssertionError("not reached")
    with pytest.raises(error, match="init: name must be"):
        core.init(name=name)
    assert not (data_home / "determined" / "runs").exists()


def test_names_of_the_environment() -> None:
    assert run_name(None, {}) is None
    assert run_name(None, {"DET_RUN_NAME": ""}) is None
    assert run_name(None, {"DET_RUN_NAME": "a b"}) == "a b"
    assert run_name("mine", {"DET_RUN_NAME": "a"}) == "mine"
    with pytest.raises(ValueError, match="DET_RUN_NAME must be"):
        run_name(None, {"DET_RUN_NAME": "a\0b"})


def test_identities() -> None:
    script = Program("script", Path("/home/me/train.py"))
    user, host = this_user(), socket.gethostname()
    assert run_identity(script, None) == f"file:{user}@{host}:/home/me/train.py"
    assert run_identity(script, "x") == run_identity(Program("interactive", None), "x") == f"name:{user}:x"
    assert run_identity(Program("interactive", None), None) is None
    assert run_identity(Program("notebook", None), None) is None
    assert shown_identity(f"file:{user}@{host}:/a:b") == f"{user}@{host}:/a:b"


def test_checkpoints_of_earlier_versions_are_found(data_home: Path) -> None:
    """They recorded the path of the program, and no identity."""
    assert fit(LineTrial, max_length=pytorch.Batch(2), latest_checkpoint="latest").batch_indices == [0, 1]
    with opened(data_home) as store:
        store._database.execute("UPDATE attempts SET identity = NULL")
    assert fit(LineTrial, max_length=pytorch.Batch(3), latest_checkpoint="latest").batch_indices == [2]
    # They did not record names.
    named = fit(LineTrial, max_length=pytorch.Batch(1), latest_checkpoint="latest", options={"name": "x"})
    assert named.batch_indices == [0]


def test_another_host_or_user_has_other_checkpoints_and_is_named(
    data_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a new container: it starts from the beginning, and prints why, and what to do."""
    fit(LineTrial, max_length=pytorch.Batch(1))
    here = socket.gethostname()
    monkeypatch.setattr(socket, "gethostname", lambda: "another-host")
    assert fit(LineTrial, max_length=pytorch.Batch(1), latest_checkpoint="latest").batch_indices == [0]
    (line,) = [record.message for record in caplog.records if "another user or host" in record.message]
    assert f"@{here}:" in line
    assert "DET_RUN_NAME" in line
    monkeypatch.setattr(socket, "gethostname", lambda: here)
    monkeypatch.setenv("LOGNAME", "somebody-else")
    assert fit(LineTrial, max_length=pytorch.Batch(1), latest_checkpoint="latest").batch_indices == [0]


def test_a_program_that_continues_anothers_checkpoint_finds_its_own_afterwards(data_home: Path) -> None:
    fit(LineTrial, max_length=pytorch.Batch(1), options={"name": "first"})
    (one,) = checkpoints(data_home)
    second = {"name": "second"}
    fit(LineTrial, max_length=pytorch.Batch(2), latest_checkpoint=one.name, options=second)
    again = fit(LineTrial, max_length=pytorch.Batch(3), latest_checkpoint="latest", options=second)
    assert again.batch_indices == [2]
    first = fit(LineTrial, max_length=pytorch.Batch(3), latest_checkpoint="latest", options={"name": "first"})
    assert first.batch_indices == [1, 2]
    assert len(runs(data_home)) >= 1
