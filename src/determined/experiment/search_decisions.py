"""The decisions of a search, each with its reason in words.

The decisions are the recorded actions of the journal. Their reasons are not recorded: they are found by replaying the
search with the recorded events, which is possible because a searcher is a state machine without I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from determined.config.stored import StoredConfig
from determined.errors import DeterminedError
from determined.searchers.base import (
    Action,
    Continue,
    Create,
    Event,
    Exited,
    Extended,
    Pause,
    Reopened,
    Stop,
    Validated,
)
from determined.searchers.comparison import Comparison
from determined.searchers.journal import action_from_plain, event_from_plain
from determined.sentences import counted
from determined.store.experiment_records import Experiment, JournalEntry
from determined.store.store import Store

Kind = Literal[
    "created", "copied", "promoted", "continued", "paused", "stopped", "completed", "failed", "canceled", "extended"
]

_EXITS: dict[str, tuple[Kind, str]] = {
    "completed": ("completed", "ended by itself"),
    "errored": ("failed", "failed"),
    "canceled": ("canceled", "canceled"),
    "invalid_hp": ("failed", "refused its hyperparameters (InvalidHP)"),
}


@dataclass(frozen=True)
class Decision:
    """One decision of a search, or an event that the search had to react to.

    `sequence` is the number of its journal entry. `rung` counts from 1 within the bracket, `place` from 1 among `of`
    results. Fields that do not apply, or that only the replay could tell, are None.
    """

    sequence: int
    kind: Kind
    text: str
    trial_id: int | None = None
    bracket: int | None = None
    rung: int | None = None
    time: float | None = None
    metric: float | None = None
    place: int | None = None
    of: int | None = None


@dataclass(frozen=True)
class SearchDecisions:
    """All decisions of a search in their order.

    `rungs` contains the lengths at which the trials of each bracket are compared, in units of `time_metric`. `problem`
    says why some decisions have no reason: a package is missing, or the replay disagrees with the journal.
    """

    method: str
    time_metric: str
    rungs: list[list[float]]
    problem: str | None
    decisions: list[Decision]


def search_decisions(store: Store, experiment_id: int) -> SearchDecisions:
    """Return the decisions of an experiment's search. A standalone run has no search, and no decisions."""
    experiment = store.experiments.get(experiment_id)
    journal = store.experiments.journal(experiment_id)
    trial_ids = {trial.number: trial.id for trial in store.experiments.trials(experiment_id)}
    comparisons, problem = _replayed(experiment, journal)
    searcher = StoredConfig(experiment.config).searcher
    time_metric = searcher.time_metric or "batches"
    wording = _Wording(time_metric, trial_ids, several_brackets=len(_rungs(journal)) > 1)
    decisions: list[Decision] = []
    decided: set[int] = set()  # trials that the search stopped: their exit is no news
    for entry in journal:
        decisions += wording.of_entry(entry, comparisons.get(entry.sequence), decided)
    return SearchDecisions(searcher.name or "", time_metric, _rungs(journal), problem, decisions)


def _rungs(journal: Sequence[JournalEntry]) -> list[list[float]]:
    """Return the lengths at which trials are compared, by bracket, as the created trials were given them."""
    found: dict[int, list[float]] = {}
    for entry in journal:
        for action in entry.actions:
            if action.get("action") == "create" and action["rungs"]:
                found.setdefault(action["bracket"], action["rungs"])
    return [found[bracket] for bracket in sorted(found)]


def _replayed(
    experiment: Experiment, journal: Sequence[JournalEntry]
) -> tuple[dict[int, Sequence[Comparison]], str | None]:
    """Return the comparisons behind each journal entry, and why they are incomplete, or None.

    The replay ends at the first entry where it gives other actions than the recorded ones: from there on its
    comparisons would be those of another search.
    """
    found: dict[int, Sequence[Comparison]] = {}
    try:
        from determined.config.stored_model import stored_model
        from determined.searchers.build import build

        config = stored_model(_first_config(experiment))
        searcher = build(config.searcher, config.hyperparameters, experiment.seed)
        for entry in journal:
            event = None if entry.event["event"] == "start" else event_from_plain(entry.event)
            actions = searcher.start() if event is None else searcher.on_event(event)
            if [_identity(action) for action in actions] != [_identity(a) for a in _actions(entry)]:
                return found, (
                    f"decisions from number {entry.sequence} on are shown without their reasons: replaying the search "
                    "gives others, so it was made by another version or with another configuration"
                )
            found[entry.sequence] = tuple(searcher.comparisons)
    except DeterminedError as error:  # a missing package of the method, or a configuration that is no longer valid
        return found, f"decisions are shown without their reasons, because the search cannot be replayed: {error}"
    return found, None


def _first_config(experiment: Experiment) -> dict[str, Any]:
    """Return the configuration with which the search began: later changes are events of the journal.

    The files of an experiment may be on another machine; then the store's copy is used, which also has later settings.
    """
    from determined.errors import InvalidExperimentException
    from determined.experiment.files import ExperimentFiles, experiment_dir

    directory = experiment_dir(experiment.key)
    if directory is None:
        return experiment.config
    try:
        return ExperimentFiles(directory).read_config()
    except InvalidExperimentException:
        return experiment.config


def _actions(entry: JournalEntry) -> list[Action]:
    """Return the recorded actions of a journal entry."""
    return [action_from_plain(plain) for plain in entry.actions]


def _identity(action: Action) -> tuple[str, Mapping[str, Any]]:
    """Return type and fields of an action, to compare it; without hyperparameters, which the journal masks."""
    return type(action).__name__, {name: value for name, value in vars(action).items() if name != "hparams"}


class _Wording:
    """Puts the entries of a journal into words."""

    def __init__(self, time_metric: str, trial_ids: Mapping[int, int], *, several_brackets: bool) -> None:
        self._unit = {"batches": "batch", "epochs": "epoch"}.get(time_metric, time_metric)
        self._trial_ids = trial_ids
        self._several_brackets = several_brackets

    def of_entry(
        self, entry: JournalEntry, comparisons: Sequence[Comparison] | None, decided: set[int]
    ) -> Iterator[Decision]:
        """Yield the decisions of a journal entry. `comparisons` is None if it could not be replayed."""
        event = None if entry.event["event"] == "start" else event_from_plain(entry.event)
        yield from self._of_event(entry.sequence, event, decided)
        for action in _actions(entry):
            own = [found for found in comparisons or () if found.number == action.number]
            for passed in own[:-1]:  # one report can reach several rungs
                yield self._decision(entry.sequence, "promoted", passed, event, action.number, "promoted")
            comparison = own[-1] if own else None
            kind, result = self._result(action, comparison, explained=comparisons is not None)
            if isinstance(action, Stop):
                decided.add(action.number)
            if isinstance(action, Create):
                yield Decision(entry.sequence, kind, result, self._trial_ids.get(action.number), action.bracket)
            else:
                yield self._decision(entry.sequence, kind, comparison, event, action.number, result)

    def _of_event(self, sequence: int, event: Event | None, decided: set[int]) -> Iterator[Decision]:
        """Yield a decision for an event that did not follow from one of the search itself."""
        if isinstance(event, Extended):
            yield Decision(sequence, "extended", f"extended by the user to {counted(event.max_trials, 'trial')}")
        elif isinstance(event, Reopened):
            for number in event.numbers:
                decided.discard(number)
                yield Decision(sequence, "continued", "continued by the user", self._trial_ids.get(number))
        elif isinstance(event, Exited) and event.number not in decided:
            kind, text = _EXITS[event.reason]
            yield Decision(sequence, kind, text, self._trial_ids.get(event.number))

    def _result(self, action: Action, comparison: Comparison | None, *, explained: bool) -> tuple[Kind, str]:
        """Return the kind of an action, and its result in words."""
        match action:
            case Create(source=None):
                return "created", f"created{self._plan(action)}"
            case Create():
                source = self._trial_ids.get(action.source or 0, action.source)
                return "copied", f"created as a copy of trial {source} with changed hyperparameters{self._plan(action)}"
            case Continue():
                kind: Kind = "continued" if comparison is None or comparison.at == "round" else "promoted"
                goal = "" if action.goal is None else f", trains to {self._when(action.goal)}"
                return kind, f"{kind}{goal}"
            case Pause():
                return "paused", "paused"
            case Stop(finished=True):
                return "completed", "completed"
            case Stop():
                if comparison is None and explained:  # only a rung that is closed stops trials without comparing them
                    return "stopped", "no more trials can reach its rung, and it is not among the best there: stopped"
                return "stopped", "stopped"

    def _plan(self, action: Create) -> str:
        """Return where a new trial is compared for the first time."""
        bracket = f" in bracket {action.bracket + 1}" if self._several_brackets else ""
        return bracket + (f", first compared at {self._when(action.goal)}" if action.goal is not None else "")

    def _decision(
        self,
        sequence: int,
        kind: Kind,
        comparison: Comparison | None,
        event: Event | None,
        number: int,
        result: str,
    ) -> Decision:
        """Return a decision about a trial that was measured."""
        trial_id = self._trial_ids.get(number)
        if comparison is None:
            own = event if isinstance(event, Validated) and event.number == number else None
            if own is None:
                return Decision(sequence, kind, result, trial_id)
            measured = self._measured(own.time, own.metric)
            return Decision(sequence, kind, f"{measured}: {result}", trial_id, time=own.time, metric=own.metric)
        rung = comparison.rung + 1
        if kind == "completed":
            kept = "the last one"
        elif comparison.kept:
            kept = f"top {comparison.kept} {'promoted' if comparison.at == 'rung' else 'continue'}"
        else:
            kept = "too few to promote one"
        place = f"{_ordinal(comparison.place)} of {comparison.of} at {comparison.at} {rung}"
        return Decision(
            sequence,
            kind,
            f"{self._measured(comparison.time, comparison.metric)}, {place}, {kept}: {result}",
            trial_id,
            comparison.bracket,
            rung,
            comparison.time,
            comparison.metric,
            comparison.place,
            comparison.of,
        )

    def _measured(self, time: float | None, metric: float | None) -> str:
        """Return the time and the metric of a report."""
        value = "no finite metric" if metric is None else f"{metric:.6g}"
        return value if time is None else f"{self._when(time)}: {value}"

    def _when(self, time: float) -> str:
        """Return a time with its unit."""
        return f"{self._unit} {time:g}"


def _ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, ... 11th, ... 21st."""
    ending = "th" if 10 < number % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
