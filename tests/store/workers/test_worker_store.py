"""The contract of `WorkerStore`, and that workers use no other part of a store."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import determined
from determined.errors import CheckpointInUse, NotFoundException, StoreError
from determined.store.experiment_changes import Change
from determined.store.records import Request
from determined.store.rows import LogRow, MetadataRow, PublishingRow, Row, StatusRow
from determined.store.store import Store
from determined.store.workers.local_worker_store import is_shared, open_worker_store, store_exists
from determined.store.workers.worker_store import WorkerStore
from tests.helpers.relay import RelayedStore, is_plain, methods
from tests.store.experiments import allocate, managed_start, new_trial, with_trials
from tests.store.rows import alive, checkpoint, metric, start, upload

SOURCE = Path(determined.__file__).parent
# Packages whose code runs in the processes of a trial.
OF_WORKERS = ("core", "pytorch", "tensorboard", "sinks", "launch", "exec", "horovod", "trial.py")
# The modules of `determined.store` that they may import: plain data, and the ways to a `WorkerStore`.
PLAIN_DATA = {
    "experiment_records",
    "heartbeats",
    "output_records",
    "process",
    "records",
    "rows",
    "states",
    "workers.unrecorded",
}
ACCESS = {
    "workers.local_worker_store": {"is_shared", "open_worker_store", "store_exists"},
    "open": {"checked_place", "patience"},
    "workers.worker_store": {"WorkerStore"},
    "workers.writer": {"Writer"},
}


@pytest.fixture(params=[open_worker_store, RelayedStore], ids=["local", "relayed"])
def worker(request: pytest.FixtureRequest, place: str) -> Iterator[WorkerStore]:
    opened = request.param(place)
    yield opened
    opened.close()


def test_workers_import_nothing_else_of_a_store() -> None:
    wrong = []
    for name in OF_WORKERS:
        path = SOURCE / name
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                    wrong += [f"{file}: import {module}" for module in names if module.startswith("determined.store")]
                elif isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("determined.store."):
                    module = (node.module or "").removeprefix("determined.store").removeprefix(".")
                    imported = {alias.name for alias in node.names}
                    if module not in PLAIN_DATA and not imported <= ACCESS.get(module, set()):
                        wrong.append(f"{file}:{node.lineno}: from {node.module} import {', '.join(sorted(imported))}")
    assert wrong == []


def test_arguments_and_results_are_plain_data() -> None:
    found = methods()
    wrong = {f"{name}.{of}": hint for name, of_it in found.items() for of, hint in of_it.items() if not is_plain(hint)}
    assert wrong == {}
    assert len(found) == 32, "the interface is narrow: each method has to be implemented more than once"


def test_each_method_says_what_a_repetition_does() -> None:
    said = {name: getattr(WorkerStore, name).__doc__ for name in methods() if name != "close"}
    assert [name for name, text in said.items() if "Reads only." not in text and "Repeated:" not in text] == []


def test_the_life_of_an_attempt(worker: WorkerStore, store: Store) -> None:
    first = start(identity="file:me", program="/p.py")._replace(key="run-0")
    begun = worker.begin_attempt(first)
    assert worker.newest_attempt("run") == ("run-0", begun)
    assert worker.newest_attempt("another") is None
    assert [attempt.number for attempt in worker.attempts(begun.trial_id)] == [1]
    assert worker.trial(begun.trial_id) == store.experiments.trial(begun.trial_id)
    with pytest.raises(NotFoundException, match="Trial 99 not found"):
        worker.trial(99)

    rows: list[Row] = [
        metric(begun, "training", 1, {"loss": float("inf")}),
        metric(begun, "validation", 1, {"error": 2.0, "text": "é"}),
        StatusRow(begun.trial_id, 1, phase="training", progress=0.5),
        MetadataRow(begun.trial_id, 1, {"who": ["me", {"deep": None}]}),
        LogRow(begun.trial_id, 1, 0, 0, "stdout", "a line", 5.0, "INFO"),
    ]
    worker.write(rows)
    assert [row.metrics for row in store.metrics(begun.trial_id)] == [
        {"loss": float("inf")},
        {"error": 2.0, "text": "é"},
    ]
    assert [line.text for line in store.logs(begun.trial_id)] == ["a line"]
    found = worker.find_metric(begun.trial_id, "validation", 1, 0)
    assert found is not None
    assert (found.metrics, found.attempt) == ({"error": 2.0, "text": "é"}, 1)
    assert worker.find_metric(begun.trial_id, "validation", 2, 0) is None
    assert worker.metadata(begun.trial_id) == {"who": ["me", {"deep": None}]}
    assert worker.best_validation(begun.experiment_id, "error", True) == 2.0
    assert worker.best_validation(begun.experiment_id, "loss", True) is None


def test_the_warning_about_a_shared_metric_is_claimed_once(worker: WorkerStore) -> None:
    begun = worker.begin_attempt(start())
    own = metric(begun, "training", 1, {"loss": 1.0})
    worker.write([own, own._replace(rank=1)])
    found = worker.claim_shared_metric([own])
    assert found is not None
    assert (found.name, found.rank, found.lower_rank) == ("loss", 1, 0)
    assert worker.claim_shared_metric([own]) is None, "repeated: the warning is lost, and nothing else"


def test_requests_and_decisions(worker: WorkerStore, store: Store) -> None:
    lease, (trial_id,) = with_trials(store, 1)
    allocation = allocate(store, lease, trial_id)
    begun = worker.begin_attempt(managed_start(trial_id, allocation))
    assert worker.requests(trial_id, begun.last_request) == []
    assert worker.decision(trial_id, begun.last_request) == (4.0, allocation, [])
    number = store.add_request(trial_id, "pause")
    (request,) = worker.requests(trial_id, begun.last_request)
    assert isinstance(request, Request)
    assert (request.id, request.kind) == (number, "pause")
    assert worker.decision(trial_id, begun.last_request).requests == [request]
    assert worker.decision(trial_id, number).requests == []
    allocate(store, lease, trial_id)
    with pytest.raises(StoreError, match="was started again as"):
        worker.begin_attempt(managed_start(trial_id, allocation))


def test_checkpoints(worker: WorkerStore, store: Store) -> None:
    begun = worker.begin_attempt(start(identity="file:me", program="/p.py"))
    saved = [checkpoint(begun, step, f"checkpoint-{step}") for step in (1, 2, 3, 4)]
    worker.write(saved)
    origin = worker.checkpoint_origin(begun.trial_id, 1)
    assert origin == store.publishing.origin(begun.trial_id, 1)
    assert [row.checkpoint_id for row in worker.checkpoints(begun.trial_id)] == [
        row.checkpoint_id for row in saved[::-1]
    ]
    assert [row.checkpoint_id for row in worker.latest_checkpoints("file:me", None)] == [
        row.checkpoint_id for row in saved[::-1]
    ]
    assert worker.latest_checkpoints("file:you", None) == []
    assert worker.identities("/p.py") == ["file:me"]

    model = store.registry.create_model("net")
    store.registry.register(model.id, "checkpoint-4")
    assert worker.registered_checkpoints(begun.experiment_id) == ["checkpoint-4"]
    worker.record_use(begun.trial_id, "checkpoint-4", (model.id, 1))
    worker.record_use(begun.trial_id, "checkpoint-3", None)
    assert store.lineage.users_of_version(model.id, 1) == [begun.trial_id]

    assert worker.mark_unused_deleted(["checkpoint-1", "checkpoint-4"]) == ["checkpoint-1"]
    worker.set_checkpoint_deleted("checkpoint-1")
    worker.mark_own_deleted("checkpoint-3")
    worker.mark_own_deleted("unknown")
    states = {row.checkpoint_id: (row.state, bool(row.resources)) for row in worker.checkpoints(begun.trial_id)}
    assert states == {
        "checkpoint-1": ("DELETED", False),
        "checkpoint-2": ("ACTIVE", True),
        "checkpoint-3": ("DELETED", True),
        "checkpoint-4": ("ACTIVE", True),
    }
    with pytest.raises(CheckpointInUse, match="net"):
        worker.mark_own_deleted("checkpoint-4")


def test_checkpoints_from_which_trials_start(worker: WorkerStore, store: Store) -> None:
    lease, _ = with_trials(store, 1)
    copies = tuple(new_trial(number, source_checkpoint_id="of-another") for number in (1, 2))
    store.experiments.commit(lease, Change(new_trials=copies))
    assert worker.source_checkpoints(lease.experiment_id) == ["of-another"]


def test_checkpoints_that_are_published_but_not_recorded(worker: WorkerStore, store: Store) -> None:
    begun = worker.begin_attempt(start(process=alive()))
    worker.write([PublishingRow(name, begun.trial_id, 1, "/checkpoints", 5.0) for name in ("lost", "stored")])
    found = worker.unrecorded_checkpoints("/checkpoints", begun.trial_id)
    assert sorted(one.checkpoint_id for one in found) == ["lost", "stored"]
    assert {one.origin for one in found} == {worker.checkpoint_origin(begun.trial_id, 1)}
    assert worker.unrecorded_checkpoints("/elsewhere", None) == []
    worker.forget_unrecorded("lost")
    worker.write([checkpoint(begun, 1, "stored")])
    assert worker.unrecorded_checkpoints("/checkpoints", begun.trial_id) == []


def test_outputs(worker: WorkerStore, store: Store) -> None:
    begun = worker.begin_attempt(start())
    worker.write([checkpoint(begun, 1, "saved")])
    assert worker.find_output(begun.trial_id) is None
    kept, removed = upload(begun, files={"a": 1, "b": 2}), upload(begun, files={"c": 3})
    for each in (kept, removed):
        worker.begin_upload(each)
        assert worker.finish_upload(each.key)
    found = worker.find_output(begun.trial_id)
    assert found == store.outputs.find(begun.trial_id) == worker.output_of_checkpoint("saved")
    assert found is not None
    assert found.resources == {"rank_0/a": 1, "rank_0/b": 2, "rank_0/c": 3}
    worker.withdraw_uploads([kept.key, removed.key])
    assert [each.finished for each in worker.uploads(begun.trial_id)] == [False, False]
    worker.keep_uploaded_files(kept.key, ["b"])
    worker.remove_upload(removed.key)
    assert [(each.files, each.finished) for each in worker.uploads(begun.trial_id)] == [({"b": 2}, True)]
    assert not worker.finish_upload(removed.key), "a newer attempt has removed it"
    assert worker.output_of_checkpoint("unknown") is None


def test_every_method_is_exercised_above() -> None:
    text = Path(__file__).read_text()
    assert [name for name in methods() if f"worker.{name}(" not in text and name != "close"] == []


def test_where_a_store_is(place: str, tmp_path: Path) -> None:
    shared = place.startswith("postgresql")
    assert (is_shared(place), store_exists(place)) == (shared, shared)
    open_worker_store(place).close()
    assert store_exists(place)
    assert not store_exists(str(tmp_path / "nothing"))
