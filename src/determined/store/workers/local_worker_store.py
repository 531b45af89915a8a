"""`LocalWorkerStore`, which calls the database directly, and `open_worker_store`, which opens it or a relay."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from determined.store.databases import location
from determined.store.open import open_store

# For annotations only: a training script that imports the library should not pay for them.
if TYPE_CHECKING:
    from determined.store.experiment_records import Trial, TrialDecision
    from determined.store.output_records import NewUpload, Output, Upload
    from determined.store.records import Attempt, Metric, Request, SharedMetric, StoredCheckpoint
    from determined.store.rows import AttemptStart, BegunAttempt, MetricRow, Row
    from determined.store.store import Store
    from determined.store.workers.unrecorded import Origin, Unrecorded
    from determined.store.workers.worker_store import WorkerStore


def open_worker_store(place: str) -> WorkerStore:
    """Open the store at a file path or URL for a worker; it is created or migrated if necessary.

    A store on another machine, which the place `relay:<socket>` names, is used through its relay.
    """
    if location.is_relay(place):
        # Imported on use: only workers on other machines need it.
        from determined.store.relay.client import RelayedWorkerStore

        # The relay serves only jobs that its runner has started, and asks each for its key.
        relayed = RelayedWorkerStore(location.relay_socket(place), os.environ.get("DET_ALLOCATION_ID", ""))
        return cast("WorkerStore", relayed)
    return LocalWorkerStore(open_store(place))


def store_exists(place: str) -> bool:
    """Return whether a worker can open the store at this place without creating it."""
    return is_shared(place) or Path(place).is_file()


def is_shared(place: str) -> bool:
    """Return whether processes on other machines use the same store: a server or one behind a relay, but no file."""
    return location.is_postgres(place) or location.is_relay(place)


class LocalWorkerStore:
    """A `WorkerStore` that calls the `Store` of this process. The methods are documented in `worker_store.py`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def place(self) -> str:
        return self._store.place

    def close(self) -> None:
        self._store.close()

    def begin_attempt(self, start: AttemptStart) -> BegunAttempt:
        return self._store.begin_attempt(start)

    def newest_attempt(self, run_key: str) -> tuple[str, BegunAttempt] | None:
        return self._store.newest_attempt(run_key)

    def attempts(self, trial_id: int) -> list[Attempt]:
        return self._store.attempts(trial_id)

    def trial(self, trial_id: int) -> Trial:
        return self._store.experiments.trial(trial_id)

    def write(self, rows: Sequence[Row]) -> None:
        self._store.write(rows)

    def claim_shared_metric(self, rows: Sequence[MetricRow]) -> SharedMetric | None:
        return self._store.claim_shared_metric(rows)

    def find_metric(self, trial_id: int, group: str, steps_completed: int, rank: int) -> Metric | None:
        return self._store.find_metric(trial_id, group, steps_completed, rank)

    def metadata(self, trial_id: int) -> dict[str, Any]:
        return self._store.metadata(trial_id)

    def best_validation(self, experiment_id: int, metric: str, smaller_is_better: bool) -> float | None:
        return self._store.experiments.best_validation(experiment_id, metric, smaller_is_better)

    def requests(self, trial_id: int, after: int) -> list[Request]:
        return self._store.requests(trial_id, after)

    def decision(self, trial_id: int, after: int) -> TrialDecision:
        return self._store.experiments.decision(trial_id, after)

    def checkpoints(self, trial_id: int) -> list[StoredCheckpoint]:
        return self._store.checkpoints(trial_id)

    def latest_checkpoints(self, identity: str, program: str | None) -> list[StoredCheckpoint]:
        return self._store.latest_checkpoints(identity, program)

    def identities(self, program: str) -> list[str]:
        return self._store.identities(program)

    def registered_checkpoints(self, experiment_id: int) -> list[str]:
        # Lists, because sets are no plain data; sorted, so that the result is the same in every process.
        return sorted(self._store.registry.registered(experiment_id))

    def source_checkpoints(self, experiment_id: int) -> list[str]:
        sources = {trial.source_checkpoint_id for trial in self._store.experiments.trials(experiment_id)}
        return sorted(source for source in sources if source is not None)

    def checkpoint_origin(self, trial_id: int, attempt: int) -> Origin:
        return self._store.publishing.origin(trial_id, attempt)

    def record_use(self, trial_id: int, checkpoint_id: str, version: tuple[int, int] | None) -> None:
        self._store.lineage.record_use(trial_id, checkpoint_id, version)

    def mark_unused_deleted(self, checkpoint_ids: Sequence[str]) -> list[str]:
        return self._store.upkeep.mark_unused_deleted(checkpoint_ids)

    def mark_own_deleted(self, checkpoint_id: str) -> None:
        self._store.upkeep.mark_own_deleted(checkpoint_id)

    def set_checkpoint_deleted(self, checkpoint_id: str) -> None:
        self._store.set_checkpoint_deleted(checkpoint_id)

    def unrecorded_checkpoints(self, storage: str, trial_id: int | None) -> list[Unrecorded]:
        return self._store.publishing.unrecorded(storage, trial_id)

    def forget_unrecorded(self, checkpoint_id: str) -> None:
        self._store.publishing.forget(checkpoint_id)

    def find_output(self, trial_id: int) -> Output | None:
        return self._store.outputs.find(trial_id)

    def output_of_checkpoint(self, checkpoint_id: str) -> Output | None:
        return self._store.outputs.of_checkpoint(checkpoint_id)

    def uploads(self, trial_id: int) -> list[Upload]:
        return self._store.outputs.all_uploads(trial_id)

    def begin_upload(self, upload: NewUpload) -> None:
        self._store.outputs.begin_upload(upload)

    def finish_upload(self, key: str) -> bool:
        return self._store.outputs.finish_upload(key)

    def remove_upload(self, key: str) -> None:
        self._store.outputs.remove_upload(key)

    def withdraw_uploads(self, keys: Sequence[str]) -> None:
        self._store.outputs.withdraw(keys)

    def keep_uploaded_files(self, key: str, names: Sequence[str]) -> None:
        self._store.outputs.keep_files(key, names)
