"""A search that really ran; every test gets its data directory in the state in which the search ended."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from determined.store.records import StoredCheckpoint
from tests.helpers.records import opened
from tests.helpers.searches import Search

PROGRAM = """
import sys
import determined as det
from determined import core

hparams = det.get_cluster_info().trial.hparams
with core.init() as context:
    print("INFO: [1] root: begins", flush=True)
    print("WARNING: [1] root: looks odd", file=sys.stderr, flush=True)
    for batch in (4, 8, 12, 16):
        context.train.report_training_metrics(batch, {"loss": 0.0, "rate": hparams["lr"]})
        context.train.report_validation_metrics(batch, {"loss": abs(batch - 8) + hparams["lr"], "accuracy": batch})
        with context.checkpoint.store_path({"steps_completed": batch}) as (path, _):
            (path / "weights").write_text(str(batch))
            (path / "optimizer.bin").write_text("x" * batch)
        if context.preempt.should_preempt():
            break
"""
CONFIG: dict[str, Any] = {
    "name": "odd/../name",
    "entrypoint": "python3 train.py",
    "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}},
    "searcher": {"name": "random", "metric": "loss", "max_trials": 2},
    "checkpoint_storage": {"save_experiment_best": 0, "save_trial_best": 9, "save_trial_latest": 9},
    "reproducibility": {"experiment_seed": 1},
}


@dataclass(frozen=True)
class Searched:
    """The search and its ids; `best` is the trial with the best loss."""

    search: Search
    pristine: Path
    id: int = 1
    trials: tuple[int, int] = (1, 2)

    @property
    def home(self) -> Path:
        return self.search.home

    @property
    def best(self) -> int:
        with opened(self.home) as store:
            return min(store.experiments.trials(self.id), key=lambda trial: trial.best or 0).id

    def checkpoint(self, trial_id: int, batches: int) -> StoredCheckpoint:
        with opened(self.home) as store:
            return next(row for row in store.checkpoints(trial_id) if row.steps_completed == batches)

    def files(self, row: StoredCheckpoint) -> Path:
        return Path(row.storage) / row.checkpoint_id

    def restore(self) -> None:
        shutil.rmtree(self.home)
        shutil.copytree(self.pristine, self.home, symlinks=True)


def run_search(directory: Path) -> Searched:
    model_dir = directory / "model"
    model_dir.mkdir()
    (model_dir / "train.py").write_text(PROGRAM)
    search = Search(directory / "home", model_dir, CONFIG)
    assert search.create() == 1
    search.activate(1)
    shutil.copytree(search.home, directory / "pristine", symlinks=True)
    return Searched(search, directory / "pristine")
