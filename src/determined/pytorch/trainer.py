"""`Trainer`: check the arguments of `fit` and train a trial."""

from __future__ import annotations

import logging
import os
from datetime import timedelta
from typing import Any

from determined.info import from_env
from determined.pytorch import fit_arguments
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.controller import PyTorchTrialController
from determined.pytorch.fit_arguments import FitArguments
from determined.pytorch.metrics.nonfinite import OnNan, checked_policy
from determined.pytorch.plan import DEFAULT_REPORTING_PERIOD
from determined.pytorch.trial import PyTorchTrial
from determined.pytorch.units import Batch, TrainUnit
from determined.user_code.imports import refuse_while_importing

logger = logging.getLogger("determined.pytorch")


class Trainer:
    """Trains a trial: `pytorch.Trainer(trial, context).fit(max_length=pytorch.Epoch(10))`.

    Args:
        trial: an instance of a `PyTorchTrial`.
        context: the context that `pytorch.init()` returned.

    Raises TypeError for anything else.
    """

    def __init__(self, trial: PyTorchTrial, context: PyTorchTrialContext) -> None:
        if not isinstance(trial, PyTorchTrial):
            raise TypeError(_wrong_trial(trial))
        if not isinstance(context, PyTorchTrialContext):
            raise TypeError(f"Trainer takes the context that pytorch.init() gives, got {type(context).__name__}")
        self._trial = trial
        self._context = context

    def configure_profiler(
        self,
        sync_timings: bool = True,
        enabled: bool = False,
        begin_on_batch: int = 0,
        end_after_batch: int | None = None,
    ) -> None:
        """Do nothing (since 0.30): use `fit(profiling_enabled=True)`."""
        logger.error("configure_profiler does nothing: use fit(profiling_enabled=True)")

    def fit(
        self,
        checkpoint_period: TrainUnit | None = None,
        validation_period: TrainUnit | None = None,
        max_length: TrainUnit | None = None,
        reporting_period: TrainUnit = DEFAULT_REPORTING_PERIOD,
        checkpoint_policy: str = "best",
        latest_checkpoint: str | os.PathLike[str] | None = None,
        step_zero_validation: bool = False,
        test_mode: bool = False,
        profiling_enabled: bool = False,
        *,
        searcher_metric: str | None = None,
        smaller_is_better: bool = True,
        time_limit: float | timedelta | None = None,
        on_nan: OnNan = "warn",
    ) -> None:
        """Train up to `max_length` and return; a stop request makes it return earlier, with a checkpoint saved.

        Args:
            checkpoint_period: how often to save a checkpoint, in addition to those of the policy and one at the end.
            validation_period: how often to validate, in addition to a validation at the end.
            max_length: `Batch(n)` or `Epoch(n)`, counted from the first batch of the trial. Required, unless the
                experiment configuration contains a length. Without `latest_checkpoint`, another `fit` in the same
                context continues from memory: after a completed one the length counts from its end; after an
                interrupted one from where it began, and at least the interrupted length is finished.
            reporting_period: how often metrics are averaged and reported; by default every 100 batches.
            checkpoint_policy: after which validations to save a checkpoint: `"best"` (default), `"all"` or `"none"`.
                `"best"` without a metric to compare means `"all"`.
            latest_checkpoint: the id or path of a checkpoint to resume from. `"latest"` is the newest undamaged
                checkpoint of the last run of this program; if there is none, training starts at the beginning.
            step_zero_validation: validate once before training.
            test_mode: train one batch, validate one batch and save a checkpoint; not allowed in an experiment.
            profiling_enabled: sample the use of CPU, memory, disk, network and GPUs.
            searcher_metric: the validation metric that `"best"` compares; by default that of the experiment.
            smaller_is_better: whether a smaller value of `searcher_metric` is better (default).
            time_limit: seconds, or a timedelta, after which training stops with a checkpoint and exit code 124.
            on_nan: what to do if `train_batch` returns NaN or infinity: `"warn"` once (default); `"stop"` with a
                NonFiniteError; `"rollback"` to the last checkpoint and continue without the batches that led to it.

        Raises TypeError or ValueError for invalid arguments, InvalidExperimentException if the trial is incomplete, and
        SystemExit after a signal or at the time limit (in an interactive session KeyboardInterrupt).
        """
        # Importing the code of a checkpoint must never start a training, see `determined.user_code.imports`.
        refuse_while_importing("Trainer.fit()")
        described = from_env(os.environ)
        config = described.trial._config if described is not None else {}
        if test_mode:
            # A trial of an experiment would end after one batch and be compared with the others.
            if described is not None:
                raise ValueError("fit: test_mode=True is for standalone runs, not for a trial of an experiment")
            max_length = Batch(1)
        if described is not None and described.latest_checkpoint and latest_checkpoint is None:
            logger.warning(
                "fit: this trial has the checkpoint %s, and latest_checkpoint is None: training starts from the "
                "beginning; pass latest_checkpoint=det.get_cluster_info().latest_checkpoint to resume",
                described.latest_checkpoint,
            )
        # Raises if the run has ended, before any argument of this call changes something.
        core_context = self._context._core_context()
        arguments = FitArguments(
            max_length=fit_arguments.checked_length(max_length, config, self._context),
            checkpoint_period=fit_arguments.checked_period("checkpoint_period", checkpoint_period),
            validation_period=fit_arguments.checked_period("validation_period", validation_period),
            reporting_period=fit_arguments.checked_reporting_period(reporting_period),
            checkpoint_policy=fit_arguments.checked_policy(
                checkpoint_policy, searcher_metric, smaller_is_better, self._context._exp_conf or {}
            ),
            latest_checkpoint=latest_checkpoint,
            step_zero_validation=step_zero_validation,
            test_mode=test_mode,
            profiling_enabled=profiling_enabled,
            time_limit=fit_arguments.checked_seconds(time_limit),
            on_nan=checked_policy(on_nan),
        )
        controller = PyTorchTrialController(self._trial, self._context, core_context, arguments)
        with self._context._fitting():
            controller.run()


def _wrong_trial(given: Any) -> str:
    """Return the error message for a first argument of `Trainer` that is not an instance of a trial."""
    kind = given if isinstance(given, type) else type(given)
    if not issubclass(kind, PyTorchTrial):
        base = f"class {kind.__name__}(determined.pytorch.PyTorchTrial)"
        what = f"the class {kind.__name__}" if isinstance(given, type) else f"{kind.__name__}: {given!r:.80}"
        return f"Trainer: derive the trial from PyTorchTrial, as in `{base}`, and pass an instance of it; got {what}"
    return f"Trainer: pass an instance, Trainer({kind.__name__}(context), context); got the class {kind.__name__}"
