"""Choose the trials of a chart: those that were named, and the best ones of experiments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from determined import ranking
from determined.sentences import counted

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment, Trial
    from determined.store.store import Store

MOST_TRIALS = 50  # more curves cannot be told apart, and make a notebook large


@dataclass(frozen=True)
class ChosenTrials:
    """The trials of a chart with their experiments by id. `note` says which trials were left out, if any."""

    trials: list[Trial]
    experiments: dict[int, Experiment]
    note: str | None


def choose(
    store: Store, trial_ids: Sequence[int], experiment_ids: Sequence[int], most: int = MOST_TRIALS
) -> ChosenTrials:
    """Return the given trials and those of the given experiments, at most `most` of them.

    If there are more, the given trials come first, then the best ones of the experiments, which take turns. If the
    given trials alone are more than `most`, the best of these are chosen in the same way.
    """
    named = {trial_id: store.experiments.trial(trial_id) for trial_id in trial_ids}
    others: dict[int, Trial] = {}
    for experiment_id in dict.fromkeys(experiment_ids):
        store.experiments.get(experiment_id)  # raises if there is no such experiment
        others |= {row.id: row for row in store.experiments.trials(experiment_id) if row.id not in named}
    found = [*named.values(), *others.values()]
    experiments = {number: store.experiments.get(number) for number in {row.experiment_id for row in found}}
    chosen = found
    if len(named) > most:
        chosen = _best(named.values(), experiments, most)
    elif len(found) > most:
        chosen = [*named.values(), *_best(others.values(), experiments, most - len(named))]
    note = (
        f"{len(chosen):,} of {counted(len(found), 'trial')} are shown, the best by the metric of the search; "
        "client.compare(…, max_trials=N) shows more."
        if len(chosen) < len(found)
        else None
    )
    return ChosenTrials(chosen, experiments, note)


def _best(rows: Iterable[Trial], experiments: Mapping[int, Experiment], most: int) -> list[Trial]:
    """Return the best trials; the experiments take turns, because their metrics cannot be compared."""
    by_experiment: dict[int, list[Trial]] = {}
    for row in rows:
        by_experiment.setdefault(row.experiment_id, []).append(row)
    orders = [
        ranking.ranked(
            trials,
            lambda row: row.best,
            lambda row: row.id,
            smaller_is_better=experiments[number].smaller_is_better,
        )
        for number, trials in by_experiment.items()
    ]
    turns = (row for rows_of_turn in zip_longest(*orders) for row in rows_of_turn if row is not None)
    return [row for _, row in zip(range(most), turns, strict=False)]
