"""Runs experiments in this process with a warm engine that many tests share: fast, with real trials."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from determined.config.experiment import load_experiment
from determined.engines.local import LocalEngine
from determined.experiment.creation.create import create_experiment
from determined.experiment.runner.run import run_experiment
from determined.store.experiment_records import Experiment, Trial
from determined.store.open import checked_place, open_store
from determined.store.store import Store
from tests.experiment.conftest import MODELS


@dataclass
class Outcome:
    """An experiment that has ended, or was paused."""

    experiment: Experiment
    trials: list[Trial]
    validations: dict[int, list[dict[str, Any]]] = field(repr=False)  # of each trial by its number
    logs: dict[int, list[str]] = field(repr=False)

    def work_dir(self, number: int = 0) -> Path:
        return Path(self.experiment.code_dir).parent / "trials" / str(self.trials[number].id)


def create(engine: LocalEngine, model: str | Path, config: dict[str, Any]) -> int:
    with opened() as store:
        return create_experiment(load_experiment(config), MODELS / model, store, engine=engine).experiment_id


def run(engine: LocalEngine, model: str | Path, config: dict[str, Any]) -> Outcome:
    experiment_id = create(engine, model, config)
    run_experiment(checked_place(), experiment_id, engine=engine)
    return outcome(experiment_id)


def outcome(experiment_id: int) -> Outcome:
    with opened() as store:
        trials = store.experiments.trials(experiment_id)
        return Outcome(
            store.experiments.get(experiment_id),
            trials,
            {trial.number: [row.metrics for row in store.metrics(trial.id, "validation")] for trial in trials},
            {trial.number: [line.text for line in store.logs(trial.id)] for trial in trials},
        )


@contextmanager
def opened() -> Iterator[Store]:
    """Open the store of this test."""
    store = open_store(checked_place())
    try:
        yield store
    finally:
        store.close()
