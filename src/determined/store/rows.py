"""The rows that a run writes to a store: the start of an attempt, and its reports."""

# Named tuples with annotations that are evaluated at once: see `records.py`.

from typing import Any, NamedTuple

from determined.store.process import Process
from determined.store.states import EndState


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

    checkpoint_id: str
    trial_id: int
    attempt: int
    storage: str
    since: float


class CheckpointRow(NamedTuple):
    """A complete checkpoint, which can be loaded."""

    checkpoint_id: str
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


class HeartbeatRow(NamedTuple):
    """The time at which the process of a standalone run shows that it is running."""

    trial_id: int
    attempt: int
    time: float


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
    state: EndState
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
    """A line of output of a rank.

    A line that is not finished is the present state of a progress bar. The line that follows it names it in `replaces`,
    and it is deleted.
    """

    trial_id: int
    attempt: int
    rank: int
    sequence: int  # number of the line within the rank and attempt
    stream: str
    text: str
    written: float
    level: str | None = None  # DEBUG, INFO, ... if the line contains one
    finished: bool = True
    replaces: int | None = None  # the number of a line that was not finished


Row = (
    MetricRow
    | PublishingRow
    | CheckpointRow
    | StatusRow
    | HeartbeatRow
    | MetadataRow
    | EndRow
    | ComparedMetricRow
    | LogRow
)
