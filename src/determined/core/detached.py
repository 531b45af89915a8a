"""A run that begins when it is opened, whoever started its process, and maybe under names that its program gives it."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, NamedTuple

from determined.config.masking import mask_secrets
from determined.info import ClusterInfo

logger = logging.getLogger("determined.core")


class Detached(NamedTuple):
    """The program's own names of its experiment and trial (the same names continue it), and the store to record in."""

    external_experiment: str | None = None
    external_trial: str | None = None
    store: str | None = None  # None: the store that the environment names


class DetachedRun(NamedTuple):
    """What the store made of it."""

    experiment_id: int
    trial_id: int
    attempt: int
    hparams: dict[str, Any]
    seed: int
    latest_checkpoint: str | None
    steps_completed: int


def describe(info: ClusterInfo, run: DetachedRun, hparams: dict[str, Any] | None) -> ClusterInfo:
    """What the process knows about itself then. A trial that goes on keeps its seed; given hyperparameters count."""
    if hparams is not None and run.attempt > 1 and mask_secrets(hparams) != run.hparams:
        logger.warning("trial %d goes on with other hyperparameters than it was begun with", run.trial_id)
    task_id = f"{run.experiment_id}.{info.task_id.partition('.')[2]}"
    trial = replace(
        info.trial,
        trial_id=run.trial_id,
        experiment_id=run.experiment_id,
        trial_seed=run.seed,
        hparams=run.hparams if hparams is None else hparams,
        _steps_completed=run.steps_completed,
        _trial_run_id=run.attempt,
    )
    return replace(
        info,
        task_id=task_id,
        allocation_id=f"{task_id}.{run.attempt}",
        _latest_checkpoint=run.latest_checkpoint,
        _trial_info=trial,
    )
