"""Find the best trials and checkpoints of an experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from determined.cli.display.json_rows import validation_metric
from determined.config.ranking import age_of_checkpoint, best_first

if TYPE_CHECKING:
    from determined.store.experiment_records import Trial
    from determined.store.records import StoredCheckpoint


def best_checkpoints(
    checkpoints: list[StoredCheckpoint], metric: str | None, smaller_is_better: bool
) -> list[StoredCheckpoint]:
    """Return the checkpoints that can be loaded and have a number for the metric, best first."""
    return best_first(
        [row for row in checkpoints if row.state == "ACTIVE"],
        lambda row: validation_metric(row, metric),
        age_of_checkpoint,
        smaller_is_better=smaller_is_better,
    )


def best_trials(trials: list[Trial], smaller_is_better: bool) -> list[Trial]:
    """Return the trials that reported the searcher metric, best first."""
    return best_first(trials, lambda trial: trial.best, lambda trial: trial.id, smaller_is_better=smaller_is_better)
