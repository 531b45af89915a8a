"""After a pause, the live view shows what trials did before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from determined.engines.local import LocalEngine
from determined.experiment.runner.run import run_experiment
from determined.experiment.runner.view import View
from determined.store.open import checked_place
from tests.experiment.inside import create, opened


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(2) as engine:
        yield engine


def test_results_from_before_a_pause_are_shown(engine: LocalEngine) -> None:
    config: dict[str, Any] = {
        "name": "recalled",
        "entrypoint": "python3 train.py 0.02 12",
        "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}, "fixed": 3},
        "searcher": {"name": "random", "metric": "loss", "max_trials": 30, "max_concurrent_trials": 2},
        "reproducibility": {"experiment_seed": 5},
    }
    experiment = create(engine, "steady", config)

    def watch_until_a_trial_has_ended() -> list[View]:
        views: list[View] = []

        def observe(view: View) -> None:
            if view.state == "ACTIVE" and any(trial.state == "COMPLETED" for trial in view.trials):
                with opened() as store:
                    store.experiments.request(experiment, "pause")
            views.append(view)

        assert run_experiment(checked_place(), experiment, engine=engine, observer=observe).state == "PAUSED"
        return views

    before = {trial.id: trial for trial in watch_until_a_trial_has_ended()[-1].trials}
    first = watch_until_a_trial_has_ended()[0]
    assert first.searched == ("lr",)
    ended = [trial for trial in first.trials if trial.id in before and before[trial.id].state == "COMPLETED"]
    assert ended
    for trial in ended:
        known = before[trial.id]
        assert (trial.steps, trial.metric, trial.best, trial.values) == (12, known.metric, known.best, known.values)
        assert trial.metric is not None
