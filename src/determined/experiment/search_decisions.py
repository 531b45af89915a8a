"""The decisions of a search, each with its reason in words.

The decisions are the recorded actions of the journal. Their reasons are not recorded: they are found by replaying the
search with the recorded events, which is possible because a searcher is a state machine without I/O.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from determined.config.stored import StoredConfig
from determined.experiment.search_replay import SearchReplay
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
from determined.searchers.decision_reason import Comparison
from determined.searchers.journal import actions_from_plain, event_from_plain
from determined.sentences import counted
from determined.store.experiment_records import Experiment, JournalEntry
from determined.store.store import Store
from determined.store.substores.overview import JournalRow

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
    return SearchHistory().update(store, experiment_id)


class SearchHistory:
    """The decisions of one search. `update` processes only what the journal has gained since the last call.

    If anything else has changed, such as the store, which may have been replaced by a copy, it begins again.
    """

    def __init__(self) -> None:
        self._identity: object = None
        self._begin({}, 0)

    def _begin(self, config: dict[str, Any], seed: int) -> None:
        """Forget everything that belongs to another search."""
        self._processed = 0  # entries of the journal
        self._digest = b""  # of these entries
        self._replay = SearchReplay(config, seed)
        self._comparisons: dict[int, Sequence[Comparison]] = {}
        self._trial_ids: dict[int, int] = {}
        self._rungs: dict[int, list[float]] = {}
        self._several_brackets = False
        self._decided: set[int] = set()  # trials that the search stopped: their exit is no news
        self._decisions: list[Decision] = []

    def update(self, store: Store, experiment_id: int) -> SearchDecisions:
        """Return all decisions that the store has of this search."""
        experiment = store.experiments.get(experiment_id)
        searcher, config = StoredConfig(experiment.config).searcher, _first_config(experiment)
        time_metric = searcher.time_metric or "batches"
        trial_ids = store.overview.ids_by_number(experiment_id)
        entries = store.overview.journal(experiment_id)
        # As text, because NaN in a configuration is not equal to itself.
        identity = (experiment_id, experiment.key, experiment.seed, json.dumps(config), time_metric)
        known, digest = _digests(entries, self._processed)
        if (
            self._replay.failed  # a missing package may have been installed
            or identity != self._identity
            or known != self._digest
            or not self._trial_ids.items() <= trial_ids.items()
        ):
            self._begin(config, experiment.seed)
        self._identity = None  # until the end, so that the next call begins again if this one fails
        new = [_entry(row) for row in entries[self._processed :]]
        for entry in new:
            self._replay_entry(entry)
        if len(self._rungs) > 1 and not self._several_brackets:  # earlier decisions name their bracket from now on
            self._several_brackets = True
            self._decided, self._decisions = set(), []
            new = [_entry(row) for row in entries]
        wording = _Wording(time_metric, trial_ids, several_brackets=self._several_brackets)
        for entry in new:
            self._decisions += wording.of_entry(entry, self._comparisons.get(entry.sequence), self._decided)
        self._processed, self._digest, self._trial_ids = len(entries), digest, trial_ids
        self._identity = identity
        rungs = [self._rungs[bracket] for bracket in sorted(self._rungs)]
        return SearchDecisions(searcher.name or "", time_metric, rungs, self._replay.problem, list(self._decisions))

    def _replay_entry(self, entry: JournalEntry) -> None:
        """Replay an entry, and note the rungs of the trials that it created."""
        comparisons = self._replay.next(entry)
        if comparisons is not None:
            self._comparisons[entry.sequence] = comparisons
        for action in entry.actions:
            if action.get("action") == "create" and action["rungs"]:
                self._rungs.setdefault(action["bracket"], action["rungs"])


def _digests(entries: Sequence[JournalRow], known: int) -> tuple[bytes, bytes]:
    """Return digests of the first `known` entries of a journal, and of all."""
    digest, before = hashlib.sha256(), b""
    for number, row in enumerate(entries):
        if number == known:
            before = digest.digest()
        digest.update(f"{row.sequence} {len(row.event)} {row.event}{row.actions}".encode(errors="surrogatepass"))
    whole = digest.digest()
    return (whole if known == len(entries) else before), whole


def _entry(row: JournalRow) -> JournalEntry:
    """Return a decoded entry of a journal."""
    return JournalEntry(row.sequence, json.loads(row.event), json.loads(row.actions))


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
        for action in actions_from_plain(entry.actions):
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
