"""Searches with known curves, written to a store without training, for tests of charts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from determined.store.experiment_changes import Change, TrialChange
from determined.store.store import Store
from tests.store.experiments import begin_managed, held_experiment, new_trial
from tests.store.rows import metric

Report = Callable[[int, int], dict[str, Any]]  # number of the trial and step to the metrics of a validation


def falling(number: int, step: int) -> dict[str, Any]:
    """A loss that falls to a different level for each trial, and an accuracy."""
    loss = 0.1 * (number + 1) + math.exp(-step / 40)
    return {"error": loss, "accuracy": 1 / (1 + loss)}


def searched(
    store: Store,
    hparams: Sequence[dict[str, Any]],
    steps: Sequence[int] = range(10, 201, 10),
    report: Report = falling,
    **experiment: Any,
) -> tuple[int, list[int]]:
    """Write an experiment with one completed trial for each set of hyperparameters; return its id and theirs.

    The last of several trials has failed. The metric of the search is `error`, and less is better.
    """
    lease = held_experiment(store, **experiment)
    created = tuple(new_trial(number, hparams=values) for number, values in enumerate(hparams))
    trials = store.experiments.commit(lease, Change(new_trials=created))
    for number, trial_id in enumerate(trials):
        attempt = begin_managed(store, lease, trial_id)
        store.write([metric(attempt, "validation", step, report(number, step)) for step in steps])
        failed = number > 0 and number == len(trials) - 1
        change = TrialChange(trial_id, state="ERROR" if failed else "COMPLETED", ended=4000.0)
        store.experiments.commit(lease, Change(trials=(change,)))
    return lease.experiment_id, trials
