"""The interface between a worker and the recording of its run: reports, checkpoints, stop requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from determined.stop_request import StopRequest
from determined.store.records import Checkpoint
from determined.store.rows import BegunAttempt
from determined.store.states import AttemptState
from determined.store.worker_store import WorkerStore

Metrics = dict[str, Any]


class CheckpointRecord(NamedTuple):
    """A complete checkpoint to be recorded."""

    storage_id: str
    steps_completed: int
    metadata: dict[str, Any]
    resources: dict[str, int]


class StatusChange(NamedTuple):
    """Changes of a run's status; None means unchanged."""

    phase: str | None = None
    progress: float | None = None
    early_exit: str | None = None
    follows_operations: bool | None = None
    state: AttemptState | None = None
    reason: str | None = None  # why the run ended; recorded for standalone runs, like the exit code
    exit_code: int | None = None


class RunStatus:
    """The current status of a run."""

    phase: str = ""
    progress: float | None = None
    early_exit: str | None = None
    follows_operations: bool = False
    state: str = "running"
    reason: str | None = None
    exit_code: int | None = None
    stop_acknowledged: bool = False


class Supervisor(Protocol):
    """The reports of a worker to the store of its run, and its queries."""

    @property
    def run_dir(self) -> Path:
        """The directory of this run."""
        ...

    def report_metrics(self, group: str, steps_completed: int | None, metrics: Metrics) -> None:
        """Store metrics of this rank. Without a step (None) they are a sample.

        On the chief they are written in the background, and a validation at which trials are compared waits for the
        runner's decision. On other ranks the call returns when they are stored, because the chief's checkpoints do not
        wait for them.
        """
        ...

    def complete_length(self, length: float, metric: float) -> None:
        """Record that the last validation was at this length, in the searcher's unit, with this metric."""
        ...

    def find_metrics(self, group: str, steps_completed: int) -> Metrics:
        """Return the metrics that this rank reported for the group and step in this attempt."""
        ...

    def begin_attempt(self, *, checkpoint: str | None = None, steps_completed: int = 0) -> None:
        """Start an attempt after this step, from this checkpoint. With several ranks every rank calls this.

        Reports replace those of earlier attempts for the same steps.
        """
        ...

    def expect_attempt(self, *, checkpoint: str | None = None, steps_completed: int = 0) -> None:
        """Let the next report, or `begin_expected`, start an attempt as `begin_attempt` does. Every rank calls this."""
        ...

    def begin_expected(self) -> None:
        """Start the expected attempt, unless a report has. With several ranks every rank calls this."""
        ...

    def note_recorded(self) -> None:
        """Note on every rank that the chief has recorded the attempt: a rank that does not find it cannot reach it."""
        ...

    def withdraw_attempt(self) -> None:
        """Forget the expected attempt, because the start was refused: a standalone run that has none records no end."""
        ...

    def compare_by(self, metric: str, *, smaller_is_better: bool) -> None:
        """Record the validation metric by which the checkpoints of a standalone run are compared."""
        ...

    def copy_output(self) -> None:
        """Store what this process prints from now on as the log of the run."""
        ...

    def end_output(self, error: BaseException | None = None) -> None:
        """Store the remaining output and an error that Python is about to print; stop copying."""
        ...

    def attempt(self) -> BegunAttempt:
        """Return the attempt to which this rank's reports belong; begin it if no rank has."""
        ...

    def begun_attempt(self) -> BegunAttempt | None:
        """Return the attempt to which this rank's reports belong, or None if nothing is recorded yet."""
        ...

    @property
    def store(self) -> WorkerStore:
        """The store of the run. A call returns after everything that this rank reported before is written."""
        ...

    def publish_checkpoint(self, storage_id: str) -> None:
        """Record that a checkpoint is about to become visible; all earlier reports are stored when this returns."""
        ...

    def checkpoint_origin(self) -> dict[str, Any]:
        """Return the description of this attempt that is stored in its checkpoints."""
        ...

    def report_checkpoint(self, checkpoint: CheckpointRecord) -> None: ...

    def checkpoints(self) -> list[Checkpoint]:
        """Return the checkpoints of this trial that are not deleted, newest first."""
        ...

    def checkpoints_in_use(self) -> set[str]:
        """Return the checkpoints that are registered or that other trials start from: they are never deleted."""
        ...

    def checkpoints_of_the_last_run(self) -> list[str]:
        """Return the checkpoint ids of the last run of this program that is not running now, newest first."""
        ...

    def report_use(self, checkpoint: str, version: tuple[int, int] | None = None) -> None:
        """Record that this run uses a checkpoint, optionally as a model version (model id and version number)."""
        ...

    def condemn_checkpoints(self, storage_ids: Sequence[str]) -> list[str]:
        """Mark unused checkpoints as deleted before their files are deleted, and return them.

        The result includes checkpoints of this trial that were marked earlier and whose files may still exist.
        """
        ...

    def condemn_own_checkpoint(self, storage_id: str) -> None:
        """Mark a checkpoint as deleted before its files are deleted. Any rank may call this.

        Raises `CheckpointInUse` if the checkpoint is needed elsewhere, and StoreError on a machine that cannot reach
        the store of the run.
        """
        ...

    def checkpoint_deleted(self, storage_id: str) -> None:
        """Record that the files of a checkpoint were deleted. Any rank may call this."""
        ...

    def report_status(self, change: StatusChange) -> None:
        """Record changes of the status.

        Phase, progress and end are taken from the chief, an early exit from any rank.
        """
        ...

    def status(self) -> RunStatus: ...

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the free-form metadata that this rank has set for the run."""
        ...

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of all ranks; if several ranks set the same name, the lowest rank's value counts."""
        ...

    def best_validation(self) -> float | None: ...

    def stop_requested(self) -> StopRequest | None: ...

    def listen(self) -> None:
        """Read stop requests on this rank as well. By default only the chief does, and other ranks ask the chief."""
        ...

    def request_stop(self, request: StopRequest) -> None:
        """Request a stop from inside this worker, as after a signal; the first request is kept."""
        ...

    def acknowledge_stop(self) -> None: ...

    def flush(self) -> None:
        """Return when everything reported so far is durably stored."""
        ...

    def close(self, *, hurry: bool = False) -> None:
        """Store pending rows and close the store; with `hurry`, wait only briefly."""
        ...
