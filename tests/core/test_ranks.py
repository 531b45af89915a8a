"""Reports and metadata of any rank are stored, in the same attempt, whichever rank is first."""

from __future__ import annotations

import itertools
import logging
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from determined import paths
from determined.checkpoint_storage import DirectoryStorage
from determined.core.checkpoint import CheckpointContext
from determined.core.distributed import DistributedContext
from determined.core.preempt import PreemptContext, PreemptMode
from determined.core.supervision.attempts import Member
from determined.core.supervision.build import supervise
from determined.core.supervision.managed import Managed
from determined.core.supervision.reports import CheckpointRecord, StatusChange
from determined.core.supervision.supervisor import Supervisor
from determined.core.supervision.wakeups import WorkerWakeups
from determined.errors import StoreError
from determined.store.process import Process, this_process
from tests.helpers.ranks import run_ranks
from tests.helpers.records import announced, opened, runs
from tests.helpers.waiting import wait_until
from tests.store.experiments import allocate, with_trials

Ranks = Callable[..., list[Supervisor]]
# These ranks are not connected: no test here calls a collective.
SECOND_OF_TWO = DistributedContext(rank=1, size=2, local_rank=1, local_size=2, cross_rank=0, cross_size=1)
_keys = (f"run-{number}" for number in itertools.count())


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    """Return the function ranks(2): unconnected supervisors of ranks of a new run, the chief first."""
    made: list[Supervisor] = []

    def make(count: int, chief: Process | None = None, managed: Managed | None = None) -> list[Supervisor]:
        key = next(_keys)
        (tmp_path / key).mkdir()
        members = [Member(key, chief or this_process(), rank, count) for rank in range(count)]
        new = [
            supervise(tmp_path / key, member, hparams={}, config={}, storage="", managed=managed) for member in members
        ]
        made.extend(new)
        return new

    yield make
    for supervisor in made:
        supervisor.close()


def stored() -> list[tuple[str, int | None, int, dict[str, Any]]]:
    with opened() as store:
        rows = [row for run in store.runs() for row in store.metrics(run.trial_id)]
    return sorted((row.group, row.steps_completed, row.rank, row.metrics) for row in rows)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_reported_value_does_not_depend_on_the_order_of_ranks(
    ranks: Ranks, order: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    supervisors = ranks(3)
    for rank in order:
        for step in (1, 2):
            supervisors[rank].report_metrics("training", step, {"loss": rank, f"of {rank}": step})
            supervisors[rank].flush()
    assert stored() == [
        ("training", step, rank, {"loss": 0, "of 0": step} if rank == 0 else {f"of {rank}": step})
        for step in (1, 2)
        for rank in range(3)
    ]
    (run,) = runs()
    assert (run.attempt.number, run.attempt.process) == (1, this_process())
    (warning,) = warnings(caplog)
    ranks_named = sorted(order[:2])
    assert f"rank {ranks_named[1]} reported the metric 'loss' of group 'training' for step" in warning
    assert f"so did rank {ranks_named[0]}: the value of the lowest rank is used" in warning


def test_without_a_shared_name_there_is_no_warning(ranks: Ranks, caplog: pytest.LogCaptureFixture) -> None:
    chief, worker = ranks(2)
    chief.report_metrics("training", 1, {"loss": 1})
    worker.report_metrics("training", 1, {"accuracy": 1})
    worker.report_metrics("training", 2, {"loss": 2})
    worker.report_metrics("other", 1, {"loss": 3})
    chief.flush()
    assert warnings(caplog) == []
    assert len(stored()) == 4


def test_a_report_of_another_rank_is_stored_when_the_call_returns(ranks: Ranks) -> None:
    _, worker = ranks(2)
    worker.report_metrics("training", 1, {"loss": 1})
    assert stored() == [("training", 1, 1, {"loss": 1})]
    worker.set_metadata({"a": 1})
    assert runs()[0].metadata == {"a": 1}


def test_a_rank_that_reports_nothing_opens_no_store(ranks: Ranks) -> None:
    _, worker = ranks(2)
    worker.expect_attempt(checkpoint=None, steps_completed=0)
    worker.begin_expected()
    assert worker.metadata() == {}
    worker.report_status(StatusChange(state="completed"))
    worker.close()
    assert worker._writer._thread is None
    assert not Path(paths.store_place()).exists()


def test_a_name_reported_by_the_same_rank_again_is_checked(ranks: Ranks) -> None:
    _, worker = ranks(2)
    worker.report_metrics("g", 1, {"a": 1})
    worker.report_metrics("g", 2, {"a": 2})
    assert worker.find_metrics("g", 1) == {"a": 1}
    assert worker.find_metrics("g", 2) == {"a": 2}


def test_ranks_meet_in_the_attempt_that_training_begins(ranks: Ranks) -> None:
    """Whether a rank has reported before or not, and whichever is first afterwards."""
    for early in itertools.product((True, False), repeat=2):
        for first in (0, 1):
            supervisors = ranks(2)
            trial: set[int] = set()
            for supervisor, reports in zip(supervisors, early, strict=True):
                if reports:
                    supervisor.report_metrics("before", 1, {"x": 1})
            for supervisor in supervisors if first == 0 else reversed(supervisors):
                supervisor.expect_attempt(checkpoint=None, steps_completed=3)
                supervisor.begin_expected()
                supervisor.report_metrics("training", 4, {"x": 1})
                supervisor.flush()
                trial.add(supervisor.attempt().trial_id)
            assert len(trial) == 1
            numbers = {supervisor.attempt().number for supervisor in supervisors}
            assert numbers == {1 + any(early)}
            with opened() as store:
                assert [row.start_step for row in store.attempts(trial.pop())][-1] == 3


def test_only_the_chief_of_a_search_waits_for_its_decision(ranks: Ranks) -> None:
    with opened() as store:
        lease, (trial_id,) = with_trials(store, 1)  # its goal is 4
        key = allocate(store, lease, trial_id)
        managed = Managed(
            key=key,
            experiment_id=lease.experiment_id,
            trial_id=trial_id,
            steps_completed=0,
            metric="error",
            smaller_is_better=True,
            time_metric="batches",
            is_copied=False,
            wakeups=WorkerWakeups(None, key),
        )
        chief, worker = ranks(2, managed=managed)
        worker.report_metrics("validation", 9, {"error": -1.0})  # beyond the goal: it would wait forever
        assert worker.attempt().trial_id == trial_id
        assert worker.best_validation() is None
        chief.report_metrics("validation", 3, {"error": 0.5})
        chief.flush()
        assert chief.best_validation() == worker.best_validation() == 0.5
        assert [row.steps_completed for row in store.experiments.validations(trial_id)] == [3]


def test_only_another_rank_reports(ranks: Ranks) -> None:
    chief, worker = ranks(2)
    worker.report_metrics("training", 1, {"loss": 1})
    for supervisor in (chief, worker):
        supervisor.report_status(StatusChange(state="completed"))
        supervisor.close()
    (run,) = runs()
    assert (run.attempt.state, run.attempt.process) == ("completed", this_process())


def test_a_chief_that_fails_is_the_runs_end(ranks: Ranks) -> None:
    chief, worker = ranks(2)
    worker.report_metrics("training", 1, {"loss": 1})
    chief.report_metrics("training", 1, {"accuracy": 1})
    chief.report_status(StatusChange(state="failed"))
    chief.close()
    worker.report_status(StatusChange(state="completed"))
    worker.close()
    assert runs()[0].attempt.state == "failed"


def test_metadata_of_every_rank(ranks: Ranks) -> None:
    chief, worker = ranks(2)
    assert (chief.metadata(), worker.metadata()) == ({}, {})
    worker.set_metadata({"a": 1, "b": 1})
    assert chief.metadata() == {"a": 1, "b": 1}  # before it has reported anything itself
    chief.set_metadata({"b": 0})
    assert chief.metadata() == worker.metadata() == {"a": 1, "b": 0}
    chief.report_status(StatusChange(phase="training", progress=0.5))
    chief.flush()
    worker.set_metadata({"c": 1})
    assert chief.metadata() == {"b": 0, "c": 1}
    assert (runs()[0].phase, runs()[0].progress) == ("training", 0.5)


def test_an_early_exit_of_another_rank_is_recorded(ranks: Ranks, caplog: pytest.LogCaptureFixture) -> None:
    chief, worker = ranks(2)
    chief.report_status(StatusChange(progress=0.5))
    worker.report_status(StatusChange(early_exit="INVALID_HP"))
    chief.report_status(StatusChange(phase="ending"))
    chief.flush()
    assert (runs()[0].early_exit, runs()[0].progress) == ("INVALID_HP", 0.5)
    for progress in (0.75, 0.8):
        worker.report_status(StatusChange(progress=progress))
    assert warnings(caplog) == ["the progress of a run is what rank 0 reports: that of rank 1 is not recorded"]


def test_every_rank_sees_requests_if_each_checks_separately(ranks: Ranks) -> None:
    chief, worker = ranks(2)
    preempt = PreemptContext(SECOND_OF_TWO, worker, PreemptMode.WorkersAskMaster).start()
    assert not preempt.should_preempt()  # no rank has begun to report
    assert not Path(paths.store_place()).exists()
    chief.report_metrics("training", 1, {"loss": 1})
    chief.flush()
    wait_until(lambda: worker._stop_requests.listens or preempt.should_preempt())  # it looks for the run once a second
    assert not preempt.should_preempt()
    with opened() as store:
        store.add_request(runs()[0].trial_id, "pause")
    wait_until(preempt.should_preempt)
    worker.flush()
    assert preempt.reason == "pause"
    assert runs()[0].stop_acknowledged


def test_a_checkpoint_deleted_by_another_rank_is_marked(ranks: Ranks, tmp_path: Path) -> None:
    chief, worker = ranks(2)
    chief.checkpoints.report(CheckpointRecord("one", 1, {"steps_completed": 1}, {}))
    storage = DirectoryStorage(tmp_path / "storage")
    (storage.stage("one") / "file").write_text("x")
    storage.commit("one")
    CheckpointContext(SECOND_OF_TWO, storage, worker.checkpoints).delete("one")
    with opened() as store:
        assert [row.state for row in store.checkpoints(runs()[0].trial_id)] == ["DELETED"]
    assert not (storage.root / "one").exists()


def test_a_rank_that_cannot_reach_the_store_deletes_no_checkpoint(ranks: Ranks, tmp_path: Path) -> None:
    _, worker = ranks(2, chief=Process("another-machine", 1, "then"))
    storage = DirectoryStorage(tmp_path / "storage")
    (storage.stage("one") / "file").write_text("x")
    storage.commit("one")
    with pytest.raises(StoreError, match="is a file on another-machine"):
        CheckpointContext(SECOND_OF_TWO, storage, worker.checkpoints).delete("one")
    assert (storage.root / "one" / "file").exists()


def test_a_rank_elsewhere_that_has_another_file_as_its_store(ranks: Ranks, caplog: pytest.LogCaptureFixture) -> None:
    _, worker = ranks(2, chief=Process("another-machine", 1, "then"))
    for step in (1, 2):
        worker.report_metrics("training", step, {"loss": 1})
    worker.set_metadata({"a": 1})
    (error,) = warnings(caplog)
    assert "what rank 1 on" in error
    assert "is a file on another-machine; let DET_STORE name a PostgreSQL server" in error
    assert not Path(paths.store_place()).exists()


@pytest.mark.parametrize("noted", [True, False], ids=["while it trains", "at the end"])
def test_output_of_a_rank_elsewhere_is_not_dropped_silently(
    ranks: Ranks, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], noted: bool
) -> None:
    """One warning tells what is not stored, why, and where it is; after training has begun, or at the end."""
    _, worker = ranks(2, chief=Process("another-machine", 1, "then"))
    worker.copy_output()
    print("first")  # noqa: T201
    if noted:
        worker.note_recorded()
        print("second")  # noqa: T201
        wait_until(lambda: warnings(caplog))
    worker.end_output()
    (warning,) = warnings(caplog)
    assert "What this process prints is no longer stored: what rank 1 on" in warning
    assert "is a file on another-machine; let DET_STORE name a PostgreSQL server" in warning
    assert warning.endswith("its output is not stored and appears only on its standard output and error")
    assert "first" in capsys.readouterr().out
    assert not Path(paths.store_place()).exists()


def test_output_of_a_rank_elsewhere_waits_for_a_shared_file(ranks: Ranks, caplog: pytest.LogCaptureFixture) -> None:
    chief, worker = ranks(2, chief=Process("another-machine", 1, "then"))
    worker.copy_output()
    print("early")  # noqa: T201
    chief.report_metrics("training", 1, {"loss": 0})
    chief.flush()
    worker.note_recorded()
    worker.end_output()
    worker.flush()
    with opened() as store:
        assert [line.text for line in store.logs(1)] == ["early"]
    assert warnings(caplog) == []


def test_a_rank_elsewhere_whose_file_is_the_same(ranks: Ranks) -> None:
    chief, worker = ranks(2, chief=Process("another-machine", 1, "then"))
    chief.report_metrics("training", 1, {"loss": 0})
    chief.flush()
    worker.report_metrics("training", 1, {"accuracy": 1})
    assert len(stored()) == 2


def test_a_store_that_is_slow_delays_but_does_not_block(ranks: Ranks) -> None:
    chief, worker = ranks(2)
    chief.report_metrics("training", 1, {"loss": 1})
    chief.flush()
    other = sqlite3.connect(paths.store_place(), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    reporting = threading.Thread(target=worker.report_metrics, args=["training", 1, {"accuracy": 1}])
    reporting.start()
    chief.report_metrics("training", 2, {"loss": 2})  # the chief continues meanwhile
    assert reporting.is_alive()
    other.execute("COMMIT")
    other.close()
    reporting.join(60)
    chief.flush()
    assert len(stored()) == 3


REPORTING = """
from determined import core
distributed = core.DistributedContext.from_torch_distributed()
rank = distributed.rank
with core.init(distributed=distributed, tensorboard_mode=core.TensorboardMode.MANUAL) as context:
    if rank != 2:
        context.train.report_training_metrics(1, {"loss": rank, f"of {rank}": 1})
        context.train.set_metadata({f"of {rank}": 1})
    distributed.allgather(None)
    try:
        context.train.report_training_metrics(1, {f"of {rank}": 2})
        refused = ""
    except ValueError as error:
        refused = str(error)
    from tests.helpers.ranks import put_result
    put_result({"metadata": context.train.get_metadata(), "refused": refused})
"""


def test_processes_of_a_run_store_what_each_reports() -> None:
    found = run_ranks(REPORTING, n=3)
    assert [rank.value["metadata"] for rank in found] == [{"of 0": 1, "of 1": 1}] * 3
    assert ["already reported" in rank.value["refused"] for rank in found] == [True, True, False]
    assert stored() == [
        ("training", 1, 0, {"loss": 0, "of 0": 1}),
        ("training", 1, 1, {"of 1": 1}),
        ("training", 1, 2, {"of 2": 2}),
    ]
    said = "".join(rank.stdout + rank.stderr for rank in found)
    assert said.count("the value of the lowest rank is used") == 1


KILLED = """
import os, signal, sys
from determined import core
distributed = core.DistributedContext.from_torch_distributed()
rank, latest = distributed.rank, sys.argv[1] or None
with core.init(distributed=distributed, tensorboard_mode=core.TensorboardMode.MANUAL) as context:
    processes = distributed.allgather(os.getpid())
    steps = context.checkpoint.get_metadata(latest)["steps_completed"] if latest else 0
    context.begin_attempt(checkpoint=latest, steps_completed=steps)
    while steps < 6:
        steps += 1
        context.train.report_training_metrics(steps, {"shared": 100 * rank + steps, f"of {rank}": 10 * steps})
        distributed.allgather(None)
        if rank == 0 and steps % 2 == 0:
            with context.checkpoint.store_path({"steps_completed": steps}):
                pass
            if steps == 4 and latest is None:
                for process in reversed(processes):
                    os.kill(process, signal.SIGKILL)
        distributed.allgather(None)
"""


def test_a_restart_loses_and_doubles_nothing_of_any_rank(data_home: Path) -> None:
    """Every process is killed as soon as a checkpoint is recorded: what was reported before is not reported again."""
    killed = run_ranks(KILLED, n=3, args=[""], check=False)
    assert {rank.returncode for rank in killed} == {-signal.SIGKILL}
    run_ranks(KILLED, n=2, args=[announced(data_home)[-1].checkpoint_id])  # on fewer ranks
    assert stored() == sorted(
        ("training", step, rank, {"shared": step, "of 0": 10 * step} if rank == 0 else {f"of {rank}": 10 * step})
        for step in range(1, 7)
        for rank in range(3 if step <= 4 else 2)
    )
    (run,) = runs()
    assert (run.attempt.number, run.attempt.start_step, run.attempt.state) == (2, 4, "completed")
