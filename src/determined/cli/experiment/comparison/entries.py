"""`ComparisonEntry`: the data of an experiment or a trial that is compared with others."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from determined.cli.experiment.comparison.metric_history import (
    MetricHistory,
    direction,
    measured,
    names_to_try,
    reported_names,
)
from determined.cli.experiment.views.experiment_columns import lasted
from determined.config.flattening import flat
from determined.config.secrets.masking import mask_secrets
from determined.curves.read import Key, read_columns
from determined.errors import DeterminedError
from determined.experiment.searched_names import hyperparameters_of
from determined.experiment.side_by_side import settings_of
from determined.store.process import may_be_running
from determined.store.ranking import best_trials

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment, Trial
    from determined.store.store import Store


@dataclass(frozen=True)
class ComparisonEntry:
    """An experiment, represented by its best trial, or a single trial."""

    title: str
    experiment: Experiment
    trial: Trial | None  # None if the experiment has no trial yet
    measured: MetricHistory | None
    hparams: dict[str, Any]  # flattened, with dots in the names
    config: dict[str, Any]  # flattened as well, without secrets
    seconds: float  # how long the trial ran

    @cached_property
    def given(self) -> frozenset[str]:
        """The settings that the user wrote; computed when needed, because that imports a YAML parser."""
        return _given(self.experiment)

    @property
    def lasted(self) -> float | None:
        """The seconds from the creation of the experiment to its end, or until now; None while it is paused."""
        return lasted(self.experiment)


def comparison_entries(
    store: Store,
    experiment_ids: Sequence[int],
    trial_ids: Sequence[int],
    *,
    metric: str | None,
    group: str | None,
    smaller_is_better: bool | None,
) -> list[ComparisonEntry]:
    """Return the entries in the order of the arguments, experiments first.

    Raises DeterminedError if a metric or group was requested that none of them reported.
    """
    chosen: list[tuple[str, Experiment, Trial | None]] = []
    for experiment_id in experiment_ids:
        experiment, trials = store.experiments.get(experiment_id), store.experiments.trials(experiment_id)
        chosen.append((f"Experiment {experiment_id}", experiment, _best(experiment, trials)))
    for trial in map(store.experiments.trial, trial_ids):
        chosen.append((f"Trial {trial.id}", store.experiments.get(trial.experiment_id), trial))
    experiments = [experiment for _, experiment, _ in chosen]
    # The metric of most experiments first, for those that recorded none.
    known = [name for name, _ in Counter(row.metric for row in experiments if row.metric is not None).most_common()]
    searched = {one.name for row in experiments for one in hyperparameters_of(row.config) if one.is_searched}
    reported: set[Key] = set()
    found = []
    for title, experiment, best in chosen:
        columns = {} if best is None else read_columns(store.reports.pages(best.id, times=False))
        reported |= columns.keys()
        names = names_to_try(experiment, known, columns, group) if metric is None else [metric]
        metrics = measured(columns, names, group)
        if metrics is not None:
            smaller = (
                direction(metrics.name, experiment, experiments) if smaller_is_better is None else smaller_is_better
            )
            metrics = replace(metrics, smaller_is_better=smaller)
        found.append(
            ComparisonEntry(
                title=title,
                experiment=experiment,
                trial=best,
                measured=metrics,
                hparams={} if best is None else flat(best.effective_hparams),
                config=_config(experiment, searched),
                seconds=0.0 if best is None else _seconds(store, best),
            )
        )
    if (metric or group) and not any(one.measured for one in found):
        raise DeterminedError(
            f"none of the compared trials reported {repr(metric) if metric else 'its searcher metric'}"
            f"{f' in the group {group!r}' if group else ''}; they reported {reported_names(reported)}"
        )
    return found


def _best(experiment: Experiment, trials: list[Trial]) -> Trial | None:
    """Return the best trial by the searcher metric; if none reported it, the one with the most batches."""
    ranked = best_trials(trials, experiment.smaller_is_better)
    if ranked:
        return ranked[0]
    return max(trials, key=lambda trial: (trial.steps_completed, -trial.number), default=None)


def _config(experiment: Experiment, searched: Collection[str]) -> dict[str, Any]:
    """Return the flat configuration; of the hyperparameters, only those that any of the experiments searched."""
    spaces = {
        f"hyperparameters.{one.name}": one.written
        for one in hyperparameters_of(mask_secrets(experiment.config))
        if one.name in searched
    }
    return {**settings_of(experiment.config), **spaces}


def _given(experiment: Experiment) -> frozenset[str]:
    """Return the settings that the user wrote: the original file, or all settings of a standalone run.

    Settings that were changed later, for example by `set max-slots`, differ from the defaults of other experiments and
    are found that way.
    """
    from determined.config.reading.load import parse_yaml

    if experiment.is_standalone or not experiment.original:
        return frozenset(flat(experiment.config))
    try:
        original = parse_yaml("the original configuration", experiment.original)
    except DeterminedError:  # written by an older release: then every setting counts as set by the user
        return frozenset(flat(experiment.config))
    return frozenset(flat(original)) | {f"hyperparameters.{one.name}" for one in hyperparameters_of(experiment.config)}


def _seconds(store: Store, trial: Trial) -> float:
    """Return the total running time of a trial's attempts.

    An attempt that was killed has no recorded duration and counts as 0.
    """
    total = 0.0
    attempts = store.attempts(trial.id)
    if not attempts and trial.started is not None:  # the program does not use the library
        return max(0.0, (time.time() if trial.ended is None else trial.ended) - trial.started)
    for attempt in attempts:
        if attempt.seconds is not None:
            total += attempt.seconds
        elif trial.ended is None and attempt.state == "running" and may_be_running(attempt.process):
            # A clock that was set back must not give a negative time.
            total += max(0.0, time.time() - attempt.started)
    return total
