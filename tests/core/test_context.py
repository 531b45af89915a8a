"""`core.init()`: opening and closing a run."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import determined as det
from determined import core, info, paths
from determined.core.initialize import open_run
from determined.errors import StoreError
from tests.helpers import warm
from tests.helpers.ranks import run_ranks
from tests.helpers.records import opened, run_of, runs


def test_a_standalone_run_keeps_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--api-key", "s3cr3t"])
    config = {"checkpoint_storage": {"type": "s3", "bucket": "b", "secret_key": "s3cr3t"}}
    with open_run(hparams={"lr": 0.5}, exp_conf=config) as context:
        context.train.set_status("training")
        context.train.report_progress(0.25)
        assert run_of(context).attempt.state == "running"
    assert context.run_dir.parent == paths.data_dir() / "runs"
    run = (context.run_dir / "run.json").read_text()
    assert json.loads(run)["hparams"] == {"lr": 0.5}
    assert json.loads(run)["pid"] == os.getpid()
    assert "s3cr3t" not in run
    kept = run_of(context)
    assert (kept.attempt.state, kept.phase, kept.progress) == ("completed", "training", 0.25)
    assert kept.hparams == {"lr": 0.5}
    assert (kept.attempt.process.pid, kept.attempt.run_dir) == (os.getpid(), str(context.run_dir))
    store = paths.data_dir() / "store.sqlite"
    assert b"s3cr3t" not in store.read_bytes()
    for file in (context.run_dir / "run.json", store):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_run_that_only_looks_around_leaves_no_record() -> None:
    with core.init() as context:
        context.train.set_status("looking")
        assert context.train.get_metadata() == {}
    assert runs() == []


def test_metadata_alone_is_recorded() -> None:
    with core.init() as context:
        context.train.set_metadata({"a": 1})
    (run,) = runs()
    assert (run.metadata, run.attempt.state) == ({"a": 1}, "completed")


def test_members_are_the_real_ones() -> None:
    mine = core.DummyDistributedContext()
    with core.init(distributed=mine) as context:
        assert context.distributed is mine
        assert type(context.train) is core.DummyTrainContext is core.TrainContext
        assert context.preempt.should_preempt() is False
        assert context.checkpoint is not None
        context.alert("title", "description", level="nonsense")


def test_a_context_is_entered_once() -> None:
    context = core.init()
    with context:
        with pytest.raises(RuntimeError, match="started already"):
            context.start()
    context.close()


@pytest.mark.parametrize("argument", ["preempt_mode", "tensorboard_mode", "distributed"])
def test_wrong_arguments_are_named(argument: str) -> None:
    with pytest.raises(TypeError, match=argument):
        core.init(**{argument: "WorkersAskChief"})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        core.init(core.DummyDistributedContext())  # type: ignore[call-arg]


def test_unwritable_storage_is_refused_before_anything_is_done() -> None:
    with pytest.raises(OSError, match="/dev/null/x"):
        core.init(checkpoint_storage="/dev/null/x")
    assert not (paths.data_dir() / "runs").exists()


def test_a_described_trial_uses_its_own_storage_and_needs_its_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with core.init() as standalone:
        env = info.to_env(standalone.info)
    env["DET_EXPERIMENT_CONFIG"] = json.dumps(
        {"checkpoint_storage": {"type": "shared_fs", "host_path": str(tmp_path / "shared")}}
    )
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with core.init() as context:
        with context.checkpoint.store_path({"steps_completed": 0}) as (_, storage_id):
            pass
        with pytest.raises(ValueError, match="max_length"):
            context.searcher.operations()
    assert (tmp_path / "shared" / storage_id).is_dir()
    monkeypatch.setenv("DET_CONTAINER_SLOT_COUNTS", "[2]")
    with pytest.raises(ValueError, match="distributed="):
        core.init()


def test_invalid_hyperparameters_end_the_process_politely(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SystemExit) as caught, core.init() as context:
        raise det.InvalidHP("lr is absurd")
    assert caught.value.code == 0
    assert "lr is absurd" in caplog.text
    run = run_of(context)
    assert (run.early_exit, run.attempt.state) == ("INVALID_HP", "completed")
    assert det.get_cluster_info() is None


def test_other_exceptions_pass_and_the_run_is_marked() -> None:
    with pytest.raises(ZeroDivisionError), core.init() as context:
        _ = 1 / 0
    assert run_of(context).attempt.state == "failed"


@pytest.fixture
def broken_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "no-store"
    path.write_text("something else, " * 100)
    monkeypatch.setenv("DET_STORE", str(path))
    return path


@pytest.mark.usefixtures("broken_store")
def test_an_error_at_the_end_never_hides_the_users_own(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ZeroDivisionError), core.init():
        raise ZeroDivisionError
    assert "while the run was being closed" in caplog.text
    assert det.get_cluster_info() is None


def test_an_error_at_the_end_is_raised_when_there_is_no_other() -> None:
    def lose_the_store() -> None:
        with core.init() as context:
            context.train.report_progress(0.5)
            context._supervisor.flush()
            (paths.data_dir() / "store.sqlite").unlink()

    with pytest.raises(StoreError, match=r"store\.sqlite was removed"):
        lose_the_store()
    assert det.get_cluster_info() is None


def test_a_broken_store_is_refused_before_training(broken_store: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(StoreError, match=f"{broken_store} .*not a database"), core.init() as context:
        context.begin_attempt()
    assert caplog.text == ""  # the error is printed once


SLEEPER = """
import sys
from determined import core
def wait_here():
    sys.stdout.write("ready\\n")
    sys.stdout.flush()
    sys.stdin.readline()
with core.init():
    wait_here()
"""


def test_sigusr1_shows_the_stack_and_the_run_continues() -> None:
    process = warm.Popen(
        [sys.executable, "-c", SLEEPER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGUSR1)
    shown = ""
    while "wait_here" not in shown:
        line = process.stderr.readline()
        assert line, shown
        shown += line
    _, errors = process.communicate("\n", timeout=30)
    assert process.returncode == 0, errors


BUSY_THREADS = """
import select, signal, sys, threading
from determined import core
def user_handler(number, frame):
    print("handled by the user", flush=True)
def count_calls(depth=0):  # its frames change all the time
    return depth if depth == 20 else count_calls(depth + 1)
def work(stop):
    while not stop.is_set():
        count_calls()
def wait_here():
    print("ready", flush=True)
    # Python calls a handler late if its signal arrives just before a system call begins to wait.
    while not select.select([sys.stdin], [], [], 0.1)[0]:
        pass
signal.signal(signal.SIGUSR1, user_handler)
stop = threading.Event()
threads = [threading.Thread(target=work, args=[stop], name=f"busy-{n}") for n in range(3)]
for thread in threads:
    thread.start()
with core.init():
    wait_here()
stop.set()
"""


def test_sigusr1_shows_running_threads_and_calls_the_handler_of_the_user() -> None:
    # Not a forked child, whose signals another process forwards.
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY_THREADS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "ready\n"
    shown = ""
    for _ in range(20):
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "handled by the user\n"
        block = ""
        while not all(f"Thread busy-{number} (most recent call first)" in block for number in range(3)):
            line = process.stderr.readline()
            assert line, shown
            block += line
        assert "wait_here" in block
        shown += block
    _, errors = process.communicate("\n", timeout=30)
    assert process.returncode == 0, errors
    assert "in work" in shown


def run_of_two() -> dict[str, Any]:
    ranks = core.DistributedContext.from_torch_distributed()
    with core.init(distributed=ranks, tensorboard_mode=core.TensorboardMode.MANUAL) as context:
        context.train.report_validation_metrics(1, {"rank": context.distributed.rank})
        return {
            "run_dir": str(context.run_dir),
            "token": context.info.session_token,
            "seed": context.info.trial.trial_seed,
            "tensorboard": str(context.train.get_tensorboard_path().relative_to(context.run_dir)),
            "slots": context.info.container_slot_counts,
            "same": context.distributed is ranks,
        }


def test_two_ranks_share_one_run_that_the_chief_writes() -> None:
    first, second = (rank.value for rank in run_ranks(run_of_two))
    for shared in ("run_dir", "token", "seed", "slots", "same"):
        assert first[shared] == second[shared], shared
    assert first["slots"] == [2]
    assert first["same"] is True
    assert (first["tensorboard"], second["tensorboard"]) == ("tensorboard", "tensorboard/rank_1")
    (run,) = runs()
    with opened() as store:
        assert [row.metrics for row in store.metrics(run.trial_id)] == [{"rank": 0}]
    assert len(list((paths.data_dir() / "runs").iterdir())) == 1


def refused_on_one() -> str:
    ranks = core.DistributedContext.from_torch_distributed()
    try:
        core.init(distributed=ranks, checkpoint_storage="/dev/null/x" if ranks.rank == 0 else None)
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    return "opened"


def test_what_the_chief_refuses_is_refused_on_all() -> None:
    first, second = (rank.value for rank in run_ranks(refused_on_one))
    assert first.startswith("NotADirectoryError")
    assert second.startswith("DistributedError: rank 0")
    assert "/dev/null/x" in second
