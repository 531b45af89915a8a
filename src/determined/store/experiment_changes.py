"""Changes of experiments that creation and the runner write: new experiments and trials, decisions of a search."""

# Named tuples with annotations that are evaluated at once: see `records.py`. Separate from `experiment_records.py`
# because commands that only read need none of these classes, and creating each takes time.

import enum
from typing import Any, Final, NamedTuple

from determined.stop_request import StopRequest
from determined.store.experiment_records import JournalEntry
from determined.store.states import ExperimentState, TrialState


class Unchanged(enum.Enum):
    """The type of `UNCHANGED`, which means "leave the column as it is" where None is a valid value."""

    UNCHANGED = enum.auto()


UNCHANGED: Final = Unchanged.UNCHANGED


class NewExperiment(NamedTuple):
    """The values of an experiment to create. Secrets in its configuration are already masked."""

    key: str  # chosen by the caller: creating again with the same key changes nothing
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


class NewTrial(NamedTuple):
    """The values of a trial that the search created."""

    number: int  # 0, 1, 2 ... within the experiment
    request_id: str
    hparams: dict[str, Any]
    seed: int
    goal: float | None
    rungs: list[float]
    bracket: int
    source_checkpoint_id: str | None  # the checkpoint that it starts from
    created: float


class TrialChange(NamedTuple):
    """The changed values of a trial; None means unchanged.

    A new allocation resets the status reported by the trial's workers and invalidates earlier requests. A state that is
    not terminal clears the time of the end.
    """

    trial_id: int
    state: TrialState | None = None
    goal: float | Unchanged | None = UNCHANGED
    allocation: str | None = None
    runs: int | None = None
    restarts: int | None = None
    reason: str | None = None
    started: float | None = None  # ignored if the trial has a start already
    ended: float | None = None
    source_checkpoint_id: str | None = None
    hparams: dict[str, Any] | None = None
    nodes: list[str] | None = None


class ExperimentChange(NamedTuple):
    """The changed values of an experiment; None means unchanged.

    A state that is not terminal clears the time of the end.
    """

    state: ExperimentState | None = None
    progress: float | None = None
    reason: str | None = None
    ended: float | None = None
    name: str | None = None
    archived: bool | None = None
    max_trials: int | None = None  # in the configuration's searcher block
    config: dict[str, Any] | None = None  # the complete configuration, without secrets
    last_request: int | None = None  # requests up to this id were handled


class Change(NamedTuple):
    """The rows that belong to one decision of a runner, written in one transaction."""

    journal: tuple[JournalEntry, ...] = ()
    snapshot: dict[str, Any] | None = None
    new_trials: tuple[NewTrial, ...] = ()
    trials: tuple[TrialChange, ...] = ()
    requests: tuple[tuple[int, StopRequest], ...] = ()  # (trial id, request to its workers)
    experiment: ExperimentChange | None = None
