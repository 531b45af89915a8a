"""A worker whose store is behind a relay: the same results and rows as directly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from determined import errors, paths
from determined.errors import StoreError, StoreUnavailable
from determined.experimental import Determined
from determined.store.databases.location import shown
from determined.store.open import checked_place
from determined.store.relay import client, codec
from determined.store.rows import BegunAttempt, EndRow, LogRow, MetadataRow, PublishingRow, Row, StatusRow
from determined.store.store import Store
from determined.store.workers.local_worker_store import is_shared, open_worker_store, store_exists
from determined.store.workers.worker_store import WorkerStore
from tests.store.experiments import managed_start
from tests.store.relay_trials import Served, same_identity, served
from tests.store.rows import checkpoint, metric, upload


@pytest.fixture
def trials(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "store.sqlite", 2) as made:
        yield made


@pytest.fixture
def worker(trials: Served) -> Iterator[WorkerStore]:
    made = trials.worker("job-1")
    yield made
    made.close()


def begin(worker: WorkerStore, job: str = "job-1", trial_id: int = 1, key: str = "run-0") -> BegunAttempt:
    return worker.begin_attempt(managed_start(trial_id, job)._replace(key=key))


class Recorded:
    """A store whose results and errors are recorded."""

    def __init__(self, worker: WorkerStore) -> None:
        self._worker = worker
        self.results: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            try:
                result = getattr(self._worker, name)(*arguments)
            except errors.DeterminedError as error:
                result = type(error), str(error)
            self.results.append((name, result))
            return result

        return call


def use_everything(worker: Any, store: Store, rows: list[Row], uploads: list[Any]) -> None:
    """Call every method that a trial of a search may use, in a realistic order."""
    begun = begin(worker)
    worker.newest_attempt("run")
    worker.newest_attempt("another")
    worker.attempts(1)
    worker.trial(1)
    worker.write(rows)
    store.registry.register(store.registry.create_model("net").id, "registered")
    worker.claim_shared_metric(rows[:2])
    worker.claim_shared_metric(rows[:2])
    worker.find_metric(1, "validation", 2, 0)
    worker.find_metric(1, "validation", 9, 0)
    worker.metadata(1)
    worker.best_validation(begun.experiment_id, "error", True)
    worker.requests(1, 0)
    worker.decision(1, 0)
    worker.checkpoints(1)
    worker.registered_checkpoints(begun.experiment_id)
    worker.source_checkpoints(begun.experiment_id)
    worker.checkpoint_origin(1, 1)
    worker.unrecorded_checkpoints("/checkpoints", None)
    worker.unrecorded_checkpoints("/checkpoints", 1)
    worker.forget_unrecorded("lost")
    worker.unrecorded_checkpoints("/checkpoints", 1)
    worker.record_use(1, "registered", (1, 1))
    worker.record_use(1, "unknown", None)
    worker.mark_unused_deleted(["checkpoint-1", "registered"])
    worker.mark_unused_deleted(["unknown"])
    worker.set_checkpoint_deleted("checkpoint-1")
    worker.mark_own_deleted("registered")
    worker.mark_own_deleted("checkpoint-2")
    worker.mark_own_deleted("unknown")
    worker.find_output(1)
    for each in uploads:
        worker.begin_upload(each)
        worker.finish_upload(each.key)
    worker.find_output(1)
    worker.output_of_checkpoint("checkpoint-2")
    worker.withdraw_uploads([each.key for each in uploads])
    worker.uploads(1)
    worker.keep_uploaded_files(uploads[0].key, ["b"])
    worker.remove_upload(uploads[1].key)
    worker.finish_upload(uploads[1].key)
    worker.uploads(1)
    worker.write([EndRow(1, 1, "completed", 6.0, 5.0)])


def test_every_method_gives_what_it_gives_directly(tmp_path: Path) -> None:
    begun = BegunAttempt(1, 1, 1, {}, 0)
    rows: list[Row] = [
        metric(begun, "training", 1, {"loss": 1.0}),
        metric(begun, "training", 1, {"loss": 2.0})._replace(rank=1),
        metric(begun, "training", 2, {"loss": float("nan"), "norm": float("-inf")}),
        metric(begun, "validation", 2, {"error": 0.1 + 0.2, "text": "é\U0001f600", "count": 2**62}),
        metric(begun, "system", None, {"cpu": 5}),
        StatusRow(1, 1, phase="training", progress=0.25),
        MetadataRow(1, 1, {"who": ["me", {"deep": None}], "large": 2**100}),
        LogRow(1, 1, 0, 0, "stdout", "a line \0 \udc80", 5.0, "INFO"),
        checkpoint(begun, 1, "checkpoint-1"),
        checkpoint(begun, 2, "checkpoint-2"),
        checkpoint(begun, 3, "registered"),
        PublishingRow("lost", 1, 1, "/checkpoints", 5.0),
    ]
    uploads = [upload(begun, files={"a": 1, "b": 2}), upload(begun, files={"c": 3})]
    found = {}
    for way in ("direct", "relayed"):
        with served(tmp_path / f"{way}.sqlite") as made:
            if way == "relayed":
                same_identity(made.store, tmp_path / "direct.sqlite")
            worker = made.worker("job-1") if way == "relayed" else open_worker_store(str(made.path))
            recorded = Recorded(worker)
            use_everything(recorded, made.store, rows, uploads)
            found[way] = recorded.results, made.rows()
            worker.close()
    assert found["relayed"][0] == found["direct"][0]
    assert found["relayed"][1] == found["direct"][1]
    called = {name for name, _ in found["relayed"][0]}
    assert codec.method_names() - called == {"latest_checkpoints", "identities"}, "those are for standalone runs"


def test_a_worker_opens_the_relay_that_its_environment_names(trials: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"relay:{trials.relay.path}"
    monkeypatch.setenv("DET_STORE", place)
    monkeypatch.setenv("DET_ALLOCATION_ID", "job-1")
    assert checked_place() == shown(place) == place
    assert is_shared(place), "ranks on other machines report to the same store"
    assert store_exists(place)
    assert paths.store_files() == []
    opened = open_worker_store(place)
    assert opened.place == place
    assert begin(opened).trial_id == 1
    opened.close()


def test_the_sdk_says_that_the_store_is_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DET_STORE", "relay:/tmp/nowhere/store")
    with pytest.raises(StoreError, match=r"on another machine.*PostgreSQL") as raised:
        Determined().get_trial(1)
    assert not isinstance(raised.value, StoreUnavailable), "it would be tried again for minutes"
    done = subprocess.run(
        [sys.executable, "-m", "determined.cli", "experiment", "list"], capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "on another machine" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_relay_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached now"):
        open_worker_store(f"relay:{tmp_path}/store")


def test_reports_larger_than_a_request_are_divided(
    trials: Served, worker: WorkerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_MOST_BYTES", 1000)
    begun = begin(worker)
    rows = [LogRow(1, begun.number, 0, number, "stdout", "x" * 300, 5.0) for number in range(10)]
    worker.write(rows)
    assert [line.text for line in trials.store.logs(1)] == ["x" * 300] * 10
    assert len(list(client._parts(rows))) == 5
    worker.write([])


def test_a_row_that_fits_into_no_request_is_a_permanent_error(
    trials: Served, worker: WorkerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = begin(worker)
    monkeypatch.setattr(client, "LARGEST", 1000)
    with pytest.raises(StoreError, match="too large") as raised:
        worker.write([LogRow(1, begun.number, 0, 0, "stdout", "x" * 2000, 5.0)])
    assert not isinstance(raised.value, StoreUnavailable)
    worker.write([LogRow(1, begun.number, 0, 0, "stdout", "short", 5.0)])
    assert [line.text for line in trials.store.logs(1)] == ["short"]
