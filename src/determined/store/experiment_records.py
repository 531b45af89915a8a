"""Experiments that a search runs, as plain values: what is written about them, and what is read."""

# Named tuples, and annotations that are evaluated at once: see `records.py`.

import enum
from typing import Any, Final, Literal, NamedTuple

from determined.config.effective import effective
from determined.store.process import Process
from determined.store.records import RequestKind

ExperimentState = Literal[
    "ACTIVE",
    "PAUSED",
    "STOPPING_COMPLETED",
    "STOPPING_CANCELED",
    "STOPPING_KILLED",
    "STOPPING_ERROR",
    "COMPLETED",
    "CANCELED",
    "ERROR",
]
TrialState = Literal[
    "QUEUED",
    "RUNNING",
    "PAUSED",
    "STOPPING",
    "COMPLETED",
    "STOPPED_EARLY",
    "INVALID_HP",
    "CANCELED",
    "ERROR",
]
# In these nothing more happens, unless somebody continues it.
ENDED: tuple[ExperimentState, ...] = ("COMPLETED", "CANCELED", "ERROR")
TRIAL_ENDED: tuple[TrialState, ...] = ("COMPLETED", "STOPPED_EARLY", "INVALID_HP", "CANCELED", "ERROR")

ExperimentRequestKind = Literal["pause", "activate", "cancel", "kill", "reconfigure"]


class Unchanged(enum.Enum):
    """Where None is a value of its own."""

    UNCHANGED = enum.auto()


UNCHANGED: Final = Unchanged.UNCHANGED


class NewExperiment(NamedTuple):
    """An experiment that was asked for; its secrets are masked already."""

    key: str  # made by whoever asks: asking again with the same one changes nothing
    name: str
    description: str
    labels: list[str]
    config: dict[str, Any]
    original: str
    seed: int
    code_dir: str
    owner: str
    created: float
    paused: bool
    metric: str
    smaller_is_better: bool
    parent_id: int | None = None


class Lease(NamedTuple):
    """The right to run an experiment; the token grows with every acquisition, and only the newest one counts."""

    experiment_id: int
    token: int


class Holder(NamedTuple):
    """Who runs an experiment; as long as it does, its heartbeat grows."""

    process: Process
    since: float
    token: int
    heartbeat: int


class NewEntry(NamedTuple):
    """What the search was told, and what it decided."""

    sequence: int  # 1, 2, 3 ... within the experiment, counted by the caller
    event: dict[str, Any]
    actions: list[dict[str, Any]]


class NewTrial(NamedTuple):
    """A trial that the search has created."""

    number: int  # 0, 1, 2 ... within the experiment
    request_id: str
    hparams: dict[str, Any]
    seed: int
    goal: float | None
    rungs: list[float]
    bracket: int
    source: str | None  # the checkpoint that it starts from
    created: float


class TrialChange(NamedTuple):
    """What is new about a trial; None means unchanged.

    A new allocation resets what the trial said of itself, and requests made before it do not count any more. A state
    in which the trial is not over takes its end away.
    """

    trial_id: int
    state: TrialState | None = None
    goal: float | Unchanged | None = UNCHANGED
    allocation: str | None = None
    runs: int | None = None
    restarts: int | None = None
    reason: str | None = None
    started: float | None = None  # of several starts the first counts
    ended: float | None = None
    warm_start: str | None = None  # the checkpoint that it starts from: its `source`
    hparams: dict[str, Any] | None = None


class ExperimentChange(NamedTuple):
    """What is new about an experiment; None means unchanged. A state in which it is not over takes its end away."""

    state: ExperimentState | None = None
    progress: float | None = None
    reason: str | None = None
    ended: float | None = None
    name: str | None = None
    archived: bool | None = None
    max_trials: int | None = None  # in the searcher's part of the configuration
    config: dict[str, Any] | None = None  # all of it, without secrets
    last_request: int | None = None  # requests up to this one are dealt with


class Change(NamedTuple):
    """All that belongs to one decision: kept together, or not at all."""

    journal: tuple[NewEntry, ...] = ()
    snapshot: dict[str, Any] | None = None
    new_trials: tuple[NewTrial, ...] = ()
    trials: tuple[TrialChange, ...] = ()
    requests: tuple[tuple[int, RequestKind], ...] = ()  # (trial id, what its workers are asked for)
    experiment: ExperimentChange | None = None


class JournalEntry(NamedTuple):
    """What the search was told, and what it decided."""

    sequence: int
    event: dict[str, Any]
    actions: list[dict[str, Any]]


class ExperimentRequest(NamedTuple):
    """Somebody wants an experiment, or one trial of it, to do something."""

    id: int
    experiment_id: int
    trial_id: int | None
    kind: ExperimentRequestKind
    created: float


class Decision(NamedTuple):
    """How far a trial may go, and whether its workers are asked to stop; of several requests the newest counts."""

    goal: float | None
    stop: RequestKind | None
    allocation: str


class Experiment(NamedTuple):
    """An experiment as it is now. One that was run by hand has one trial, no search, and the state of that trial."""

    id: int
    key: str
    by_hand: bool
    program: str
    name: str
    description: str
    labels: list[str]
    state: ExperimentState
    progress: float | None
    seed: int
    config: dict[str, Any]
    original: str
    code_dir: str
    owner: str
    archived: bool
    parent_id: int | None
    created: float
    ended: float | None
    reason: str | None
    holder: Holder | None
    trial_count: int
    metric: str | None
    smaller_is_better: bool
    best: float | None
    last_request: int
    notes: str = ""
    external_id: str | None = None  # what the program that ran it by hand calls it
    borrowed: bool = False  # imported: its files belong to another store, and this one never removes them


class ExperimentFilter(NamedTuple):
    """Which experiments a list has: those for which all of it is true. Empty fields exclude nothing."""

    states: tuple[ExperimentState, ...] = ()  # one of them
    labels: tuple[str, ...] = ()  # all of them
    name: str | None = None  # the complete name; `*` stands for any text, `?` for one character
    owner: str | None = None  # likewise
    since: float | None = None  # created at this time or later


ALL_EXPERIMENTS: Final = ExperimentFilter()


class Trial(NamedTuple):
    """A trial as it is now."""

    id: int
    experiment_id: int
    number: int
    request_id: str
    hparams: dict[str, Any]
    seed: int
    state: TrialState
    goal: float | None
    rungs: list[float]
    bracket: int
    source: str | None
    allocation: str
    runs: int
    restarts: int
    reason: str | None
    phase: str
    progress: float | None
    early_exit: str | None
    stop_acknowledged: bool
    steps_completed: int  # the largest step that was reported and is not archived
    best: float | None  # by the experiment's metric
    latest_checkpoint: str | None
    created: float
    started: float | None
    ended: float | None
    external_id: str | None = None  # what the program that ran it by hand calls it
    # What the program of a managed trial passed to `init()`, secrets masked: empty if it passed nothing, and None until
    # the trial begins to train.
    passed_hparams: dict[str, Any] | None = None
    follows_operations: bool = False  # its program iterates over `searcher.operations()`
    # Of the newest attempt; the last three are recorded for standalone runs.
    host: str | None = None
    command: str | None = None
    git_commit: str | None = None
    exit_code: int | None = None

    @property
    def effective_hparams(self) -> dict[str, Any]:
        """The values that the trial trains with."""
        return effective(self.hparams, self.passed_hparams)
