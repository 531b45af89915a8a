"""The rights of a trial's jobs in the store of their runner through a relay: only what concerns the trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from determined.errors import StoreError
from determined.store.relay import codec
from determined.store.relay.rights import _CHECKS
from determined.store.rows import (
    BegunAttempt,
    ComparedMetricRow,
    EndRow,
    LogRow,
    MetadataRow,
    PublishingRow,
    Row,
    StatusRow,
)
from determined.store.workers.worker_store import WorkerStore
from tests.store.experiments import managed_start
from tests.store.relay_trials import Served, served
from tests.store.rows import checkpoint, metric, upload

MINE, OTHER = 1, 2


@pytest.fixture
def trials(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "store.sqlite", 2) as made:
        yield made


@pytest.fixture
def worker(trials: Served) -> Iterator[WorkerStore]:
    made = trials.worker("job-1")
    yield made
    made.close()


@pytest.fixture
def begun(worker: WorkerStore) -> BegunAttempt:
    return worker.begin_attempt(managed_start(MINE, "job-1")._replace(key="mine-0"))


@pytest.fixture
def other(trials: Served) -> BegunAttempt:
    """Create another trial, with an attempt, a checkpoint, one that is about to be published, and an upload."""
    begun = trials.store.begin_attempt(managed_start(OTHER, "job-2")._replace(key="other-0"))
    trials.store.write([checkpoint(begun, 1, "others"), PublishingRow("coming", OTHER, 1, "/checkpoints", 5.0)])
    trials.store.outputs.begin_upload(upload(begun)._replace(key="others-upload"))
    return begun


def test_every_method_has_a_rule() -> None:
    assert codec.method_names() - set(_CHECKS) == {"latest_checkpoints", "identities"}


Calls = Callable[[WorkerStore, BegunAttempt, BegunAttempt], object]
FOREIGN: dict[str, Calls] = {
    "begin_attempt": lambda worker, mine, other: worker.begin_attempt(managed_start(OTHER, "job-2")),
    "begin with another job": lambda worker, mine, other: worker.begin_attempt(managed_start(MINE, "job-2")),
    "begin another trial": lambda worker, mine, other: worker.begin_attempt(managed_start(OTHER, "job-1")),
    "begin without a job": lambda worker, mine, other: worker.begin_attempt(
        managed_start(MINE, "job-1")._replace(allocation=None)
    ),
    "begin after another": lambda worker, mine, other: worker.begin_attempt(
        managed_start(MINE, "job-1")._replace(previous=other)
    ),
    "begin with a known key": lambda worker, mine, other: worker.begin_attempt(
        managed_start(MINE, "job-1")._replace(key="other-0")
    ),
    "newest_attempt": lambda worker, mine, other: worker.newest_attempt("other"),
    "any attempt": lambda worker, mine, other: worker.newest_attempt("%"),
    "attempts": lambda worker, mine, other: worker.attempts(OTHER),
    "trial": lambda worker, mine, other: worker.trial(OTHER),
    "claim_shared_metric": lambda worker, mine, other: worker.claim_shared_metric([metric(other, "training", 1, {})]),
    "find_metric": lambda worker, mine, other: worker.find_metric(OTHER, "training", 1, 0),
    "metadata": lambda worker, mine, other: worker.metadata(OTHER),
    "best_validation": lambda worker, mine, other: worker.best_validation(mine.experiment_id + 1, "error", True),
    "requests": lambda worker, mine, other: worker.requests(OTHER, 0),
    "decision": lambda worker, mine, other: worker.decision(OTHER, 0),
    "checkpoints": lambda worker, mine, other: worker.checkpoints(OTHER),
    "registered_checkpoints": lambda worker, mine, other: worker.registered_checkpoints(mine.experiment_id + 1),
    "source_checkpoints": lambda worker, mine, other: worker.source_checkpoints(mine.experiment_id + 1),
    "checkpoint_origin": lambda worker, mine, other: worker.checkpoint_origin(OTHER, 1),
    "record_use": lambda worker, mine, other: worker.record_use(OTHER, "others", None),
    "mark_unused_deleted": lambda worker, mine, other: worker.mark_unused_deleted(["others"]),
    "mark_own_deleted": lambda worker, mine, other: worker.mark_own_deleted("others"),
    "set_checkpoint_deleted": lambda worker, mine, other: worker.set_checkpoint_deleted("others"),
    "unrecorded_checkpoints": lambda worker, mine, other: worker.unrecorded_checkpoints("/checkpoints", OTHER),
    "forget_unrecorded": lambda worker, mine, other: worker.forget_unrecorded("coming"),
    "find_output": lambda worker, mine, other: worker.find_output(OTHER),
    "uploads": lambda worker, mine, other: worker.uploads(OTHER),
    "begin_upload": lambda worker, mine, other: worker.begin_upload(upload(other)),
    "begin an earlier upload": lambda worker, mine, other: worker.begin_upload(upload(mine)._replace(attempt=7)),
    "begin another's upload": lambda worker, mine, other: worker.begin_upload(
        upload(mine)._replace(key="others-upload")
    ),
    "finish_upload": lambda worker, mine, other: worker.finish_upload("others-upload"),
    "remove_upload": lambda worker, mine, other: worker.remove_upload("others-upload"),
    "withdraw_uploads": lambda worker, mine, other: worker.withdraw_uploads(["others-upload"]),
    "keep_uploaded_files": lambda worker, mine, other: worker.keep_uploaded_files("others-upload", []),
    "keep an unknown upload": lambda worker, mine, other: worker.keep_uploaded_files("unknown", []),
}


@pytest.mark.parametrize("call", FOREIGN)
def test_what_concerns_another_trial_is_refused(
    trials: Served, worker: WorkerStore, begun: BegunAttempt, other: BegunAttempt, call: str
) -> None:
    before = trials.rows()
    with pytest.raises(StoreError, match="'job-1' may not use") as raised:
        FOREIGN[call](worker, begun, other)
    assert type(raised.value) is StoreError, "it is not tried again"
    assert trials.rows() == before


def rows_of_another(mine: BegunAttempt, other: BegunAttempt) -> list[Row]:
    earlier = mine._replace(number=mine.number + 1)
    return [
        metric(other, "training", 1, {"loss": 0.0}),
        metric(earlier, "training", 1, {"loss": 0.0}),
        StatusRow(OTHER, 1, early_exit="error"),
        StatusRow(MINE, 2, early_exit="error"),
        MetadataRow(OTHER, 1, {"who": "me"}),
        MetadataRow(MINE, 0, {"who": "me"}),
        EndRow(OTHER, 1, "failed", 5.0, 5.0),
        EndRow(MINE, 2, "failed", 5.0, 5.0),
        ComparedMetricRow(OTHER, "loss", True),
        LogRow(OTHER, 1, 0, 0, "stdout", "not mine", 5.0),
        LogRow(MINE, 2, 0, 0, "stdout", "not mine", 5.0),
        checkpoint(other, 2, "new"),
        checkpoint(earlier, 2, "new"),
        checkpoint(mine, 2, "coming"),  # would delete the note about another trial's checkpoint
        checkpoint(mine, 2, "others"),
        PublishingRow("new", OTHER, 1, "/checkpoints", 5.0),
        PublishingRow("new", MINE, 2, "/checkpoints", 5.0),
        PublishingRow("others", MINE, 1, "/checkpoints", 5.0),
    ]


@pytest.mark.parametrize("number", range(18))
def test_rows_of_another_trial_or_attempt_are_refused(
    trials: Served, worker: WorkerStore, begun: BegunAttempt, other: BegunAttempt, number: int
) -> None:
    before = trials.rows()
    row = rows_of_another(begun, other)[number]
    with pytest.raises(StoreError, match="'job-1' may not use"):
        worker.write([metric(begun, "training", 1, {"loss": 1.0}), row])
    assert trials.rows() == before, "not even the good row of the call is written"


def test_what_a_trial_may_read_of_others(
    trials: Served, worker: WorkerStore, begun: BegunAttempt, other: BegunAttempt
) -> None:
    trials.store.write([metric(other, "validation", 1, {"error": 3.0})])
    trials.store.outputs.finish_upload("others-upload")
    assert worker.best_validation(begun.experiment_id, "error", True) == 3.0
    output = worker.output_of_checkpoint("others")
    assert output is not None
    assert output.trial_id == OTHER, "it may continue from a checkpoint of another trial"
    worker.record_use(MINE, "others", None)
    assert trials.store.lineage.users_of_checkpoint("others") == [MINE]


def test_calls_of_standalone_runs_are_refused(worker: WorkerStore) -> None:
    with pytest.raises(StoreError, match="for standalone runs"):
        worker.latest_checkpoints("file:me", None)
    with pytest.raises(StoreError, match="for standalone runs"):
        worker.identities("/p.py")


def test_a_checkpoint_of_an_earlier_job_is_recorded(trials: Served, worker: WorkerStore, other: BegunAttempt) -> None:
    """The process was killed between storing and recording the checkpoint; see `unrecorded.py`."""
    begun = worker.begin_attempt(managed_start(MINE, "job-1")._replace(key="mine-0"))
    worker.write([PublishingRow(name, MINE, 1, "/checkpoints", 5.0) for name in ("stored", "lost")])
    trials.start(MINE, "job-1-again")
    again = trials.worker("job-1-again")
    again.begin_attempt(managed_start(MINE, "job-1-again")._replace(key="again-0"))
    found = again.unrecorded_checkpoints("/checkpoints", None)
    assert sorted(each.checkpoint_id for each in found) == ["lost", "stored"], "the other trial's is not shown"
    again.write([checkpoint(begun, 1, "stored")])
    again.write([checkpoint(begun, 1, "stored")._replace(attempt=2)])  # of its own attempt: it is already recorded
    again.forget_unrecorded("lost")
    assert [row.checkpoint_id for row in again.checkpoints(MINE)] == ["stored"]
    with pytest.raises(StoreError, match="attempt 1 of trial 1"):
        again.write([checkpoint(begun, 2, "never-announced")])
    again.close()


def test_a_rank_reports_for_the_attempt_that_another_rank_began(trials: Served, begun: BegunAttempt) -> None:
    rank = trials.worker("job-1")
    assert rank.newest_attempt("mine") == ("mine-0", begun)
    rank.write([metric(begun, "training", 1, {"loss": 1.0})._replace(rank=1)])
    rank.close()
    assert [row.rank for row in trials.store.metrics(MINE)] == [1]


def test_a_rank_joins_an_attempt_that_began_beside_the_relay(trials: Served, worker: WorkerStore) -> None:
    begun = trials.store.begin_attempt(managed_start(MINE, "job-1")._replace(key="chief-0"))
    assert worker.newest_attempt("chief") == ("chief-0", begun)
    worker.write([metric(begun, "training", 1, {"loss": 1.0})])
    assert len(trials.store.metrics(MINE)) == 1


@pytest.mark.parametrize("how", ["started again", "ended"])
def test_a_job_that_is_not_current_must_end(trials: Served, worker: WorkerStore, begun: BegunAttempt, how: str) -> None:
    if how == "started again":
        trials.start(MINE, "job-1-again")
    else:
        trials.jobs = {}
    before = trials.rows()
    for call in (
        lambda: worker.write([metric(begun, "training", 1, {"loss": 1.0})]),
        lambda: worker.decision(MINE, 0),
        lambda: worker.begin_attempt(managed_start(MINE, "job-1")),
    ):
        with pytest.raises(StoreError, match="started again elsewhere, or has ended: this process must end") as raised:
            call()
        assert type(raised.value) is StoreError
    assert trials.rows() == before


def test_the_attempts_of_an_earlier_job_are_not_those_of_the_next(
    trials: Served, worker: WorkerStore, begun: BegunAttempt
) -> None:
    worker.write([metric(begun, "training", 1, {"loss": 1.0})])
    trials.start(MINE, "job-1-again")
    again = trials.worker("job-1-again")
    with pytest.raises(StoreError, match="attempt 1 of trial 1"):
        again.write([metric(begun, "training", 2, {"loss": 1.0})])
    again.close()
