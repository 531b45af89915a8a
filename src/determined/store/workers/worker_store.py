"""`WorkerStore`: everything that the processes of a trial read from and write to the store of their run.

A worker uses nothing else of a store, so that it need not have a connection to the database: any implementation of this
interface will do, for example one that forwards each call to a process that has the connection. So that a call can be
forwarded by its name:

- Arguments and results are plain data: numbers, strings, None, lists, dicts with string keys, and named tuples of
  these.
- Every method may be executed several times for one call, if its answer was lost. Each says what a repetition does. The
  next call of the same worker begins after the last repetition.
- Temporary trouble is raised as `StoreUnavailable`, and the call may be made again; every other failure is another
  `DeterminedError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

# For annotations only: a training script that imports the library should not pay for them.
if TYPE_CHECKING:
    from determined.store.experiment_records import Trial, TrialDecision
    from determined.store.output_records import NewUpload, Output, Upload
    from determined.store.records import Attempt, Metric, Request, SharedMetric, StoredCheckpoint
    from determined.store.rows import AttemptStart, BegunAttempt, MetricRow, Row
    from determined.store.workers.unrecorded import Origin, Unrecorded


class WorkerStore(Protocol):
    """The store of a run as its workers see it. It is used by one thread at a time, usually that of a `Writer`."""

    @property
    def place(self) -> str:
        """The location of the store for messages, without a password."""
        ...

    def close(self) -> None:
        """Close the connection. The store cannot be used afterwards."""
        ...

    # Attempts

    def begin_attempt(self, start: AttemptStart) -> BegunAttempt:
        """Record the start of an attempt and return its trial, number and metadata; see `Store.begin_attempt`.

        Repeated: the key of the start identifies the attempt, so the same attempt is returned.
        """
        ...

    def newest_attempt(self, run_key: str) -> tuple[str, BegunAttempt] | None:
        """Return the newest attempt whose key is `<run_key>-<number>`, together with its key, or None. Reads only."""
        ...

    def attempts(self, trial_id: int) -> list[Attempt]:
        """Return the attempts of a trial, oldest first. Reads only."""
        ...

    def trial(self, trial_id: int) -> Trial:
        """Return the row of a trial. Raise `NotFoundException` if it does not exist. Reads only."""
        ...

    # Reports

    def write(self, rows: Sequence[Row]) -> None:
        """Write all rows in one transaction; see `Store.write`.

        Repeated: rows are identified by their attempt and sequence number or by their id, and values are set instead of
        incremented, so the same rows written again change nothing.
        """
        ...

    def claim_shared_metric(self, rows: Sequence[MetricRow]) -> SharedMetric | None:
        """Return a metric in these stored rows that another rank of the attempt also reported, or None.

        Only one caller per attempt gets a result, so the warning about it is logged once. Repeated: the result is None,
        and the warning is not logged, which loses no data.
        """
        ...

    def find_metric(self, trial_id: int, group: str, steps_completed: int, rank: int) -> Metric | None:
        """Return the report of one rank for a group and step, archived or not, or None. Reads only."""
        ...

    def metadata(self, trial_id: int) -> dict[str, Any]:
        """Return the metadata that the ranks reported for a trial, merged; see `Store.metadata`. Reads only."""
        ...

    def best_validation(self, experiment_id: int, metric: str, smaller_is_better: bool) -> float | None:
        """Return the best finite value of a validation metric over all trials, or None. Reads only."""
        ...

    # Requests and decisions

    def requests(self, trial_id: int, after: int) -> list[Request]:
        """Return the requests to a trial with an id above `after`, in order. Reads only."""
        ...

    def decision(self, trial_id: int, after: int) -> TrialDecision:
        """Return the runner's newest decision about a trial: its goal, and the requests with an id above `after`.

        One call for both, because every worker makes it once a second. Reads only.
        """
        ...

    # Checkpoints

    def checkpoints(self, trial_id: int) -> list[StoredCheckpoint]:
        """Return the checkpoints of a trial, newest first. Reads only."""
        ...

    def latest_checkpoints(self, identity: str, program: str | None) -> list[StoredCheckpoint]:
        """Return the checkpoints of the standalone runs with this identity; see `Store.latest_checkpoints`.

        `program` includes attempts of older versions, which have no identity. Reads only.
        """
        ...

    def identities(self, program: str) -> list[str]:
        """Return the identities under which standalone runs of a program saved checkpoints, sorted. Reads only."""
        ...

    def registered_checkpoints(self, experiment_id: int) -> list[str]:
        """Return the ids of the checkpoints of an experiment that are registered as model versions. Reads only."""
        ...

    def source_checkpoints(self, experiment_id: int) -> list[str]:
        """Return the ids of the checkpoints from which trials of an experiment start. Reads only."""
        ...

    def checkpoint_origin(self, trial_id: int, attempt: int) -> Origin:
        """Return the origin that checkpoints of an attempt carry in their metadata. Reads only."""
        ...

    def record_use(self, trial_id: int, checkpoint_id: str, version: tuple[int, int] | None) -> None:
        """Record that a trial used a checkpoint, optionally as a model version (model id and version number).

        Repeated: a trial has one record for each checkpoint that it used, so nothing changes.
        """
        ...

    def mark_unused_deleted(self, checkpoint_ids: Sequence[str]) -> list[str]:
        """Mark those checkpoints as deleted that are not in use, and return their ids; see `Upkeep.mark_deleted`.

        Repeated: those that are already marked are returned again.
        """
        ...

    def mark_own_deleted(self, checkpoint_id: str) -> None:
        """Mark a checkpoint as deleted that its own program deletes; see `Upkeep.mark_own_deleted`.

        Repeated: it stays marked.
        """
        ...

    def set_checkpoint_deleted(self, checkpoint_id: str) -> None:
        """Record that all files of a checkpoint were deleted. Repeated: nothing changes."""
        ...

    def unrecorded_checkpoints(self, storage: str, trial_id: int | None) -> list[Unrecorded]:
        """Return the checkpoints that ended attempts, of all trials or one, were about to publish in a storage.

        Reads only.
        """
        ...

    def forget_unrecorded(self, checkpoint_id: str) -> None:
        """Delete the note about a checkpoint that never appeared in the storage. Repeated: nothing changes."""
        ...

    # Outputs of batch inference

    def find_output(self, trial_id: int) -> Output | None:
        """Return the output of a trial, or None if it has uploaded nothing. Reads only."""
        ...

    def output_of_checkpoint(self, checkpoint_id: str) -> Output | None:
        """Return the output of the trial that saved a checkpoint, or None. Reads only."""
        ...

    def uploads(self, trial_id: int) -> list[Upload]:
        """Return all uploads of a trial, including unfinished ones, oldest first. Reads only."""
        ...

    def begin_upload(self, upload: NewUpload) -> None:
        """Record that the files of an upload are about to appear; see `Outputs.begin_upload`.

        Repeated: the key of the upload identifies it, so nothing changes.
        """
        ...

    def finish_upload(self, key: str) -> bool:
        """Record that all files of an upload are in place. Return False if a newer attempt has removed the upload.

        Repeated: it stays finished, and the answer is the same unless a newer attempt removed it meanwhile.
        """
        ...

    def remove_upload(self, key: str) -> None:
        """Delete the record of an upload whose files do not exist. Repeated: nothing changes."""
        ...

    def withdraw_uploads(self, keys: Sequence[str]) -> None:
        """Record that uploads are no longer finished, before their files are deleted. Repeated: nothing changes."""
        ...

    def keep_uploaded_files(self, key: str, names: Sequence[str]) -> None:
        """Reduce a withdrawn upload to some of its files, and record it as finished again.

        Repeated: the files that remain are the same.
        """
        ...
