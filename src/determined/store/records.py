"""Records of runs: the rows that are written to a store, and the values that are read from it."""

# Named tuples instead of dataclasses, and no `from __future__ import annotations`, because every program that uses the
# library imports this module: `NamedTuple` compiles annotations that are strings one by one, which slows the import.

from typing import Any, NamedTuple

from determined.errors import StoreError
from determined.stop_request import StopRequest
from determined.store.process import Process
from determined.store.states import AttemptState, CheckpointState

LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class NewRun(NamedTuple):
    """A standalone run to record: an experiment with one trial, started without a search.

    The program may name the experiment and the trial. If both names are known, that trial is continued; if only the
    experiment is known, a new trial is added to it.
    """

    program: str
    run_dir: str
    hparams: dict[str, Any]
    config: dict[str, Any]
    created: float
    seed: int = 0
    passed_hparams: dict[str, Any] | None = None  # passed to `init()` by the program, as opposed to assigned to it
    external_experiment: str | None = None
    external_trial: str | None = None
    identity: str | None = None  # the same for all runs of one program; None when nothing identifies it
    labels: tuple[str, ...] = ()
    notes: str = ""
    command: str | None = None  # the command line of the process, secrets masked
    git_commit: str | None = None


class BegunAttempt(NamedTuple):
    """The identity of an attempt that was recorded, and the state that it continues from."""

    experiment_id: int
    trial_id: int
    number: int
    metadata: dict[str, Any]
    last_request: int  # requests up to this id were made to an earlier attempt


class AttemptStart(NamedTuple):
    """The start of an attempt to record: its process, its start step, and the checkpoint it was loaded from."""

    key: str  # chosen by the run: recording it again with the same key changes nothing
    run: NewRun
    process: Process
    started: float
    checkpoint: str | None = None
    steps_completed: int = 0
    previous: BegunAttempt | None = None  # the attempt that the same run worked on before
    allocation: tuple[int, str] | None = None  # (trial id, allocation id) given by the runner that started the process


class MetricRow(NamedTuple):
    """A report of metrics. A report without a step is a sample; a trial may have any number of samples."""

    trial_id: int
    attempt: int
    sequence: int  # number of the report within the rank and attempt
    group: str
    steps_completed: int | None
    body: str  # a JSON object; NaN and infinities are spelled as in Python's json module
    reported: float
    rank: int = 0


class PublishingRow(NamedTuple):
    """A checkpoint that is about to be published in its storage. Writing its `CheckpointRow` deletes this row."""

    uuid: str
    trial_id: int
    attempt: int
    storage: str
    since: float


class CheckpointRow(NamedTuple):
    """A complete checkpoint, which can be loaded."""

    uuid: str
    trial_id: int
    attempt: int
    steps_completed: int
    metadata: dict[str, Any]
    resources: dict[str, int]
    storage: str
    reported: float


class StatusRow(NamedTuple):
    """The status of a trial. Fields that are None or False leave the stored value unchanged."""

    trial_id: int
    attempt: int
    phase: str | None = None
    progress: float | None = None
    early_exit: str | None = None
    stop_acknowledged: bool = False
    follows_operations: bool = False  # its program iterates over `searcher.operations()`


class MetadataRow(NamedTuple):
    """The metadata that a rank reports about its run, replacing its earlier metadata."""

    trial_id: int
    attempt: int
    metadata: dict[str, Any]
    rank: int = 0


class EndRow(NamedTuple):
    """The end of an attempt, as reported by a rank. The chief's report replaces those of other ranks.

    `reason` and `exit_code` are recorded for standalone runs; for a trial of a search the runner determines both.
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

    It has no effect on a trial of a search, whose configuration names the metric.
    """

    trial_id: int
    metric: str
    smaller_is_better: bool


class LogRow(NamedTuple):
    """A line of output of a rank."""

    trial_id: int
    attempt: int
    rank: int
    sequence: int  # number of the line within the rank and attempt
    stream: str
    text: str
    written: float
    level: str | None = None  # DEBUG, INFO, ... if the line contains one


Row = MetricRow | PublishingRow | CheckpointRow | StatusRow | MetadataRow | EndRow | ComparedMetricRow | LogRow


class Attempt(NamedTuple):
    """One execution of a trial's processes, from start to end."""

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
    """The metrics that a rank reported for a group and step, or one sample."""

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


class Checkpoint(NamedTuple):
    """A checkpoint as stored, with the validation metrics of the same step, if any."""

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
    borrowed: bool = False  # imported: its files belong to another store, and this one never deletes them


def is_to_be_removed(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint is marked as deleted but still has files, because its deletion was interrupted."""
    return checkpoint.state == "DELETED" and bool(checkpoint.resources) and not checkpoint.borrowed


class Log(NamedTuple):
    """A line of a trial's log. The id gives the order in which the lines were stored."""

    id: int
    attempt: int
    rank: int
    stream: str
    text: str
    written: float
    level: str | None = None


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
