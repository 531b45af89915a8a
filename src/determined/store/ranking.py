"""The best trials and checkpoints among records of the store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from determined.ranking import best_first

if TYPE_CHECKING:
    from determined.store.records import StoredCheckpoint


class _RankedTrial(Protocol):
    """A record of a trial with its best searcher metric; there are several."""

    @property
    def id(self) -> int: ...

    @property
    def best(self) -> float | None: ...


T = TypeVar("T", bound=_RankedTrial)


def best_trials(trials: Iterable[T], smaller_is_better: bool) -> list[T]:
    """Return the trials that reported the searcher metric, best first."""
    return best_first(trials, lambda trial: trial.best, lambda trial: trial.id, smaller_is_better=smaller_is_better)


def best_checkpoints(
    checkpoints: list[StoredCheckpoint], metric: str | None, smaller_is_better: bool
) -> list[StoredCheckpoint]:
    """Return the checkpoints that can be loaded and have a number for the metric, best first."""
    return best_first(
        [row for row in checkpoints if row.state == "ACTIVE"],
        lambda row: row.validation_metric(metric),
        age_of_checkpoint,
        smaller_is_better=smaller_is_better,
    )


def age_of_checkpoint(checkpoint: StoredCheckpoint) -> tuple[int, int]:
    """Return the age of a checkpoint for sorting: the id of its trial, then its step.

    The trial comes first, so that the best checkpoint of an experiment belongs to its best trial.
    """
    return checkpoint.trial_id, checkpoint.steps_completed
