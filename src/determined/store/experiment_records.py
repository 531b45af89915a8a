"""Records of experiments and their trials that are read from a store."""

# Named tuples, and annotations that are evaluated at once: see `records.py`.

from typing import Any, Final, Literal, NamedTuple

from determined.config.effective import effective
from determined.stop_request import StopRequest
from determined.store.process import Process
from determined.store.records import Request
from determined.store.states import ExperimentState, TrialState

# Requests of users to an experiment: to stop, to withdraw a pause, to read changed settings.
ExperimentRequestKind = Literal[StopRequest, "activate", "reconfigure"]


class Lease(NamedTuple):
    """The right to run an experiment. The token grows with every acquisition, and only the newest token is valid."""

    experiment_id: int
    token: int


class Holder(NamedTuple):
    """The process that runs an experiment. Its heartbeat counter grows as long as it is alive."""

    process: Process
    since: float
    token: int
    heartbeat: int


class JournalEntry(NamedTuple):
    """A journal entry: an event passed to the search, and the actions that the search returned."""

    sequence: int  # 1, 2, 3 ... within the experiment, counted by the runner
    event: dict[str, Any]
    actions: list[dict[str, Any]]


class ExperimentRequest(NamedTuple):
    """A user's request to an experiment, or to one of its trials."""

    id: int
    experiment_id: int
    trial_id: int | None
    kind: ExperimentRequestKind
    created: float


class TrialDecision(NamedTuple):
    """The runner's newest decision about a trial: its goal, its current allocation, and requests to its workers."""

    goal: float | None
    allocation: str
    requests: list[Request]


class Experiment(NamedTuple):
    """An experiment as stored. A standalone run is one without a search; its state follows from its trials."""

    id: int
    key: str
    is_standalone: bool  # the column is `by_hand`
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
    external_id: str | None = None  # the name that a standalone program gave it
    borrowed: bool = False  # imported: its files belong to another store, and this one never deletes them

    @property
    def runner(self) -> Process | None:
        """The process that holds the lease of the experiment; it may have exited."""
        return None if self.holder is None else self.holder.process


class ExperimentFilter(NamedTuple):
    """Criteria for a list of experiments, all of which must hold. Empty fields exclude nothing."""

    states: tuple[ExperimentState, ...] = ()  # one of them
    labels: tuple[str, ...] = ()  # all of them
    name: str | None = None  # pattern for the complete name: `*` matches any text, `?` one character
    owner: str | None = None  # pattern, likewise
    since: float | None = None  # created at this time or later


ALL_EXPERIMENTS: Final = ExperimentFilter()


class Trial(NamedTuple):
    """A trial as stored."""

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
    source_checkpoint_id: str | None
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
    external_id: str | None = None  # the name that a standalone program gave it
    # The hyperparameters that the program of a search's trial passed to `init()`, secrets masked: empty if it passed
    # none, None until the trial starts training.
    passed_hparams: dict[str, Any] | None = None
    follows_operations: bool = False  # its program iterates over `searcher.operations()`
    nodes: list[str] | None = None  # of each rank, of the newest start on a cluster; None on a single machine
    # Values of the newest attempt; the last three are recorded for standalone runs only.
    host: str | None = None
    command: str | None = None
    git_commit: str | None = None
    exit_code: int | None = None

    @property
    def effective_hparams(self) -> dict[str, Any]:
        """Return the hyperparameters that the trial trains with."""
        return effective(self.hparams, self.passed_hparams)


def nodes_text(nodes: list[str]) -> str:
    """Return in words on which nodes the ranks of a job run, as `a (ranks 0 to 3), b (rank 4)`."""
    names = list(dict.fromkeys(nodes))
    if len(names) == 1:
        return names[0]
    return ", ".join(f"{name} ({_ranks([rank for rank, node in enumerate(nodes) if node == name])})" for name in names)


def _ranks(ranks: list[int]) -> str:
    """Return ranks in words. Those of a node are consecutive."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"
