"""The rows of a store as plain values: those that are written, and those that are read."""

# Without `from __future__ import annotations`, and named tuples instead of data classes: every program that imports the
# library waits for this module, and annotations kept as text are compiled one by one when a named tuple is made.

from typing import Any, Literal, NamedTuple

from determined.errors import StoreError
from determined.store.process import Process

AttemptState = Literal["running", "completed", "stopped", "failed"]
CheckpointState = Literal["ACTIVE", "PARTIALLY_DELETED", "DELETED"]
RequestKind = Literal["pause", "cancel", "kill", "stop"]

LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class NewRun(NamedTuple):
    """A run that somebody started by hand: an experiment with one trial.

    A program may have names of its own for both. A trial that is known by its names goes on; one whose experiment
    alone is known is the next one there.
    """

    program: str
    run_dir: str
    hparams: dict[str, Any]
    config: dict[str, Any]
    created: float
    seed: int = 0
    passed_hparams: dict[str, Any] | None = None  # what the program itself passed to `init()`, not what it was given
    external_experiment: str | None = None
    external_trial: str | None = None
    identity: str | None = None  # the same for all runs of one program; None when nothing identifies it
    labels: tuple[str, ...] = ()
    notes: str = ""
    command: str | None = None  # the command line of the process, secrets masked
    git_commit: str | None = None


class BegunAttempt(NamedTuple):
    """What a run must know to go on."""

    experiment_id: int
    trial_id: int
    number: int
    metadata: dict[str, Any]
    last_request: int  # requests up to this one were made to an earlier attempt


class AttemptStart(NamedTuple):
    """One life of a trial's processes begins: where, from which step, and out of which checkpoint."""

    key: str  # made by the run: asking again with the same one changes nothing
    run: NewRun
    process: Process
    started: float
    checkpoint: str | None = None
    steps_completed: int = 0
    previous: BegunAttempt | None = None  # what the same run worked on until now
    allocation: tuple[int, str] | None = None  # the trial that a runner started this for, and by which start of it


class MetricRow(NamedTuple):
    """A report. Without a step it is a sample, of which there may be many."""

    trial_id: int
    attempt: int
    sequence: int  # counts the reports of a rank in an attempt
    group: str
    steps_completed: int | None
    body: str  # a JSON object; NaN and the infinities as Python writes them
    reported: float
    rank: int = 0


class PublishingRow(NamedTuple):
    """A checkpoint that is about to appear in its storage; its `CheckpointRow` takes the place of this row."""

    uuid: str
    trial_id: int
    attempt: int
    storage: str
    since: float


class CheckpointRow(NamedTuple):
    """A checkpoint that can be loaded from now on."""

    uuid: str
    trial_id: int
    attempt: int
    steps_completed: int
    metadata: dict[str, Any]
    resources: dict[str, int]
    storage: str
    reported: float


class StatusRow(NamedTuple):
    """How a trial is doing now; what is None, or False, stays as it is in the store."""

    trial_id: int
    attempt: int
    phase: str | None = None
    progress: float | None = None
    early_exit: str | None = None
    stop_acknowledged: bool = False
    follows_operations: bool = False  # its program iterates over `searcher.operations()`


class MetadataRow(NamedTuple):
    """What a rank says about its run in its own words; it replaces what the same rank said before."""

    trial_id: int
    attempt: int
    metadata: dict[str, Any]
    rank: int = 0


class EndRow(NamedTuple):
    """The end of an attempt, as a rank reports it. The chief's report replaces those of other ranks.

    `reason` and `exit_code` are recorded for standalone runs; for a trial of a search its runner decides about both.
    """

    trial_id: int
    attempt: int
    state: AttemptState
    ended: float
    seconds: float
    rank: int = 0
    reason: str | None = None
    exit_code: int | None = None


class ComparedMetricRow(NamedTuple):
    """The validation metric by which the checkpoints of a standalone run are compared.

    It changes nothing for a trial of a search, whose configuration names the metric.
    """

    trial_id: int
    metric: str
    smaller_is_better: bool


class LogRow(NamedTuple):
    """A line that a rank wrote."""

    trial_id: int
    attempt: int
    rank: int
    sequence: int  # counts the lines of a rank in an attempt
    stream: str
    text: str
    written: float
    level: str | None = None  # DEBUG, INFO, ... if the line names one


Row = MetricRow | PublishingRow | CheckpointRow | StatusRow | MetadataRow | EndRow | ComparedMetricRow | LogRow


class Attempt(NamedTuple):
    """One life of a trial's processes."""

    trial_id: int
    number: int
    start_step: int
    process: Process
    run_dir: str
    state: AttemptState
    started: float
    ended: float | None
    seconds: float | None
    command: str | None = None  # secrets masked; None for trials of a search, whose configuration says it
    git_commit: str | None = None
    exit_code: int | None = None


class Run(NamedTuple):
    """A trial with its newest attempt, as it is listed."""

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
    """What a rank reported for one group and step, or one sample."""

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
    lower_rank: int  # which reported it too; another rank below it may still do so


class Checkpoint(NamedTuple):
    """A checkpoint with what a validation at the same step gave."""

    uuid: str
    trial_id: int
    attempt: int
    steps_completed: int
    metadata: dict[str, Any]
    resources: dict[str, int]
    storage: str
    state: CheckpointState
    reported: float
    validation: dict[str, Any] | None = None
    borrowed: bool = False  # imported: its files belong to another store, and this one never removes them


def is_to_be_removed(checkpoint: Checkpoint) -> bool:
    """It is marked as deleted, but as far as anybody knows its files are there: somebody was cut short."""
    return checkpoint.state == "DELETED" and bool(checkpoint.resources) and not checkpoint.borrowed


class Log(NamedTuple):
    """A line of the log, in the order in which it reached the store."""

    id: int
    attempt: int
    rank: int
    stream: str
    text: str
    written: float
    level: str | None = None


class LogFilter(NamedTuple):
    """Which lines of a log are wanted; empty and None mean all."""

    ranks: tuple[int, ...] = ()
    streams: tuple[str, ...] = ()
    level: str | None = None  # this one and those above it
    text: str | None = None  # that the line contains
    before: float | None = None
    after: float | None = None


ALL_LINES = LogFilter()


class Request(NamedTuple):
    """Somebody wants a trial to do something."""

    id: int
    trial_id: int
    kind: RequestKind
    created: float


def levels_from(level: str) -> tuple[str, ...]:
    """That one and all above it."""
    if level not in LOG_LEVELS:
        raise StoreError(f"there is no level {level!r} of log lines: expected one of {', '.join(LOG_LEVELS)}")
    return LOG_LEVELS[LOG_LEVELS.index(level) :]
