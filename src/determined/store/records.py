"""Records of runs that are read from a store: attempts, metrics, checkpoints, log lines and requests."""

# Named tuples instead of dataclasses, and no `from __future__ import annotations`, because every program that uses the
# library imports this module: `NamedTuple` compiles annotations that are strings one by one, which slows the import.

from typing import Any, Literal, NamedTuple

from determined.errors import StoreError
from determined.stop_request import StopRequest
from determined.store.process import Process
from determined.store.states import AttemptState, CheckpointState

# Least severe first: `levels_from` depends on the order. TRACE is a level of Determined's logs.
LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class Attempt(NamedTuple):
    """A recorded stretch of a run, from a checkpoint or from scratch."""

    trial_id: int
    number: int
    start_step: int
    process: Process
    run_dir: str
    state: AttemptState
    started: float
    ended: float | None
    seconds: float | None
    command: str | None = None  # secrets masked; None for trials of a search, whose configuration has the command
    git_commit: str | None = None
    exit_code: int | None = None
    reason: str | None = None  # why it ended, if not as planned
    heartbeat: float | None = None  # of a standalone run: when its process last showed that it is running


class Run(NamedTuple):
    """A trial with its newest attempt, as shown in lists."""

    experiment_id: int
    trial_id: int
    parent_id: int | None
    program: str
    hparams: dict[str, Any]
    phase: str
    progress: float | None
    metadata: dict[str, Any]
    early_exit: str | None
    stop_acknowledged: bool
    created: float
    attempt: Attempt


class Metric(NamedTuple):
    """The metrics that a rank reported for a group, at a step or, as a sample, without one."""

    group: str
    steps_completed: int | None
    metrics: dict[str, Any]
    attempt: int
    sequence: int
    archived: bool
    reported: float
    rank: int = 0


class SharedMetric(NamedTuple):
    """A metric that two ranks reported for the same group and step."""

    name: str
    group: str
    steps_completed: int
    rank: int
    lower_rank: int  # the other rank; a rank below it may still report the metric later


class StoredCheckpoint(NamedTuple):
    """A checkpoint as it is in the store, with the validation metrics of the same step, if any."""

    checkpoint_id: str
    trial_id: int
    attempt: int
    steps_completed: int
    metadata: dict[str, Any]
    resources: dict[str, int]
    storage: str
    state: CheckpointState
    reported: float
    validation: dict[str, Any] | None = None
    borrowed: bool = False  # imported: its files belong to another store, and this one never deletes them

    @property
    def shown_state(self) -> Literal["COMPLETED", "PARTIALLY_DELETED", "DELETED"]:
        """The state as users see it: COMPLETED for a checkpoint that can be loaded, which is ACTIVE in the store."""
        return "COMPLETED" if self.state == "ACTIVE" else self.state

    def validation_metric(self, name: str | None) -> Any:
        """Return the value of a metric in the validation at the checkpoint's step, or None."""
        return None if self.validation is None or name is None else self.validation.get(name)


def is_to_be_removed(checkpoint: StoredCheckpoint) -> bool:
    """Return whether a checkpoint is marked as deleted but still has files, because its deletion was interrupted."""
    return checkpoint.state == "DELETED" and bool(checkpoint.resources) and not checkpoint.borrowed


class Log(NamedTuple):
    """A line of a trial's log. The id gives the order in which the lines were stored.

    A line that is not `finished` is the present state of a progress bar: another line will take its place.
    """

    id: int
    attempt: int
    rank: int
    stream: str
    text: str
    written: float
    level: str | None = None
    finished: bool = True


class LogFilter(NamedTuple):
    """Criteria for log lines; empty and None mean no restriction."""

    ranks: tuple[int, ...] = ()
    streams: tuple[str, ...] = ()
    level: str | None = None  # this level and more severe ones
    text: str | None = None  # contained in the line
    before: float | None = None
    after: float | None = None


ALL_LINES = LogFilter()


class Request(NamedTuple):
    """A request to a trial."""

    id: int
    trial_id: int
    kind: StopRequest
    created: float


def levels_from(level: str) -> tuple[str, ...]:
    """Return this log level and all more severe ones. Raise `StoreError` for an unknown level."""
    if level not in LOG_LEVELS:
        raise StoreError(f"there is no level {level!r} of log lines: expected one of {', '.join(LOG_LEVELS)}")
    return LOG_LEVELS[LOG_LEVELS.index(level) :]
