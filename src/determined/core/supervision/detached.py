"""Detached runs (`core_v2`): recorded as soon as they are opened, optionally under names chosen by the program."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, NamedTuple

from determined.config.secrets.masking import mask_secrets
from determined.info import ClusterInfo

logger = logging.getLogger("determined.core")


class Detached(NamedTuple):
    """The program's own names of experiment and trial (equal names continue it), and the store to record the run in."""

    external_experiment: str | None = None
    external_trial: str | None = None
    store: str | None = None  # None: the store named by the environment


class DetachedRun(NamedTuple):
    """The experiment, trial and attempt that the store assigned to a detached run, and its starting point."""

    experiment_id: int
    trial_id: int
    attempt: int
    hparams: dict[str, Any]
    seed: int
    latest_checkpoint: str | None
    steps_completed: int


def describe_detached(info: ClusterInfo, run: DetachedRun, hparams: dict[str, Any] | None) -> ClusterInfo:
    """Return the ClusterInfo of a detached run.

    A trial that is continued keeps its seed; hyperparameters that the program passes take precedence over the recorded
    ones.
    """
    # Compared with the masked values, because only those are stored.
    if hparams is not None and run.attempt > 1 and mask_secrets(hparams) != run.hparams:
        logger.warning(
            "trial %d continues with other hyperparameters than those that it was started with", run.trial_id
        )
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
