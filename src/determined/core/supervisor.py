"""A worker's line upwards: whom it tells what happens, and who may ask it to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from determined.store.base import Store
from determined.store.records import BegunAttempt, Checkpoint

T = TypeVar("T")

Metrics = dict[str, Any]

StopReason = Literal["pause", "cancel", "stop", "reschedule"]


class StopRequest(NamedTuple):
    """Somebody wants this run to end soon."""

    reason: StopReason


class CheckpointRecord(NamedTuple):
    """A finished checkpoint, as it is announced."""

    storage_id: str
    steps_completed: int
    metadata: dict[str, Any]
    resources: dict[str, int]


class StatusChange(NamedTuple):
    """What is new about a run; None means unchanged."""

    phase: str | None = None
    progress: float | None = None
    early_exit: str | None = None
    follows_operations: bool | None = None
    state: Literal["running", "completed", "stopped", "failed"] | None = None
    reason: str | None = None  # why the run ended; recorded for standalone runs, like the exit code
    exit_code: int | None = None


@dataclass
class RunStatus:
    """All that is known about a run now."""

    phase: str = ""
    progress: float | None = None
    early_exit: str | None = None
    follows_operations: bool = False
    state: str = "running"
    reason: str | None = None
    exit_code: int | None = None
    stop_acknowledged: bool = False


class Supervisor(Protocol):
    """What a worker may tell, and ask, whoever runs it."""

    @property
    def run_dir(self) -> Path:
        """The directory of this run."""
        ...

    def report_metrics(self, group: str, steps_completed: int | None, metrics: Metrics) -> None:
        """Store metrics of this rank; None as the step makes them a sample.

        On the chief they are written soon, and a validation by which trials are compared waits for the runner's
        decision. On other ranks the call returns when they are stored: no checkpoint of the chief waits for them.
        """
        ...

    def complete_length(self, length: float, metric: float) -> None:
        """The last validation was after that length, in the unit of the searcher, and gave that metric."""
        ...

    def find_metrics(self, group: str, steps_completed: int) -> Metrics:
        """Return what this rank reported for that group and step in this attempt."""
        ...

    def begin_attempt(self, *, checkpoint: str | None = None, steps_completed: int = 0) -> None:
        """Training starts after that step, from that checkpoint. With several ranks every rank calls this.

        What is reported from now on replaces what an earlier attempt reported for the same steps.
        """
        ...

    def compare_by(self, metric: str, *, smaller_is_better: bool) -> None:
        """Record by which validation metric the checkpoints of a standalone run are compared."""
        ...

    def copy_output(self) -> None:
        """Store what this process prints from now on, as the log of the run."""
        ...

    def end_output(self, error: BaseException | None = None) -> None:
        """Store what this process printed so far, and an error that Python is about to show; stop listening to it."""
        ...

    def attempt(self) -> BegunAttempt:
        """Return the attempt that reports of this rank belong to; it begins now if no rank has begun it."""
        ...

    def begun_attempt(self) -> BegunAttempt | None:
        """Return the attempt that reports of this rank belong to, or None if nothing is recorded yet."""
        ...

    def ask(self, question: Callable[[Store], T]) -> T:
        """Return what the store answers when everything that this rank reported before is written."""
        ...

    def publish_checkpoint(self, storage_id: str) -> None:
        """Note that a checkpoint is about to appear in its storage. Everything reported before is stored then."""
        ...

    def checkpoint_origin(self) -> dict[str, Any]:
        """Return what a checkpoint of this attempt says about where it comes from."""
        ...

    def report_checkpoint(self, checkpoint: CheckpointRecord) -> None: ...

    def checkpoints(self) -> list[Checkpoint]:
        """Those of this trial that are not deleted, the newest first."""
        ...

    def checkpoints_in_use(self) -> set[str]:
        """Those in the registry, or that other trials of the experiment begin with: they stay in any case."""
        ...

    def checkpoints_of_the_last_run(self) -> list[str]:
        """Those of the last run of this same program that is not at work now, the newest first."""
        ...

    def report_use(self, checkpoint: str, version: tuple[int, int] | None = None) -> None:
        """This run makes use of a checkpoint, maybe as a version of a model: its id and the version's number."""
        ...

    def condemn_checkpoints(self, storage_ids: Sequence[str]) -> list[str]:
        """Mark those that nobody needs as deleted, before their files go; returns them.

        Those of this trial that were marked before, and whose files may be there still, are among them.
        """
        ...

    def condemn_own_checkpoint(self, storage_id: str) -> None:
        """Mark it as deleted, before its files are removed; `CheckpointInUse` when others need it. For any rank.

        A rank whose machine cannot reach the store of the run raises a StoreError.
        """
        ...

    def checkpoint_deleted(self, storage_id: str) -> None:
        """Record that its files are removed. For any rank."""
        ...

    def report_status(self, change: StatusChange) -> None:
        """Record what is new. The chief's phase, progress and end are the run's; an early exit is that of any rank."""
        ...

    def status(self) -> RunStatus: ...

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace what this rank said about the run in its own words."""
        ...

    def metadata(self) -> dict[str, Any]:
        """Return what all ranks said about the run; of a name that several ranks use the lowest rank's value."""
        ...

    def best_validation(self) -> float | None: ...

    def stop_requested(self) -> StopRequest | None: ...

    def listen(self) -> None:
        """Look for requests to stop on this rank. The chief does so anyway; other ranks rely on it by default."""
        ...

    def request_stop(self, reason: StopReason) -> None:
        """This worker itself was asked to stop, as by a signal; the first reason stays."""
        ...

    def acknowledge_stop(self) -> None: ...

    def flush(self) -> None:
        """Return when everything reported before is kept, whatever happens to this process."""
        ...

    def close(self, *, hurry: bool = False) -> None:
        """Keep what is left; in a hurry, not at any price."""
        ...
