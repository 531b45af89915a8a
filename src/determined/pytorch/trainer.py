"""`Trainer`: check the arguments of `fit` and train a trial."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Container
from datetime import timedelta
from pathlib import Path
from typing import Any

from determined.code_import import refuse_while_importing
from determined.config.secrets.masking import mask_secrets
from determined.core.jsonable import as_text, to_jsonable
from determined.info import from_env
from determined.program import this_program
from determined.pytorch.checkpoint.policy import CheckpointPolicy
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.controller import PyTorchTrialController
from determined.pytorch.metrics.nonfinite import OnNan, checked_policy
from determined.pytorch.plan import DEFAULT_REPORTING_PERIOD
from determined.pytorch.trial import PyTorchTrial
from determined.pytorch.units import Batch, Epoch, TrainUnit

logger = logging.getLogger("determined.pytorch")

_POLICIES = ("best", "all", "none")


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
            checkpoint of
                the last run of this program; if there is none, training starts at the beginning.
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
        refuse_while_importing("Trainer.fit()")
        described = from_env(os.environ)
        config = described.trial._config if described is not None else {}
        if test_mode:
            if described is not None:
                raise ValueError("fit: test_mode=True is for scripts run by hand")
            max_length = Batch(1)
        if described is not None and described.latest_checkpoint and latest_checkpoint is None:
            logger.warning(
                "fit: this trial has the checkpoint %s, and latest_checkpoint is None: training starts anew; pass "
                "latest_checkpoint=det.get_cluster_info().latest_checkpoint to go on",
                described.latest_checkpoint,
            )
        controller = PyTorchTrialController(
            self._trial,
            self._context,
            self._context._core_context(),
            max_length=_checked_length(max_length, config, self._context),
            checkpoint_period=_checked_period("checkpoint_period", checkpoint_period),
            validation_period=_checked_period("validation_period", validation_period),
            reporting_period=_checked_reporting_period(reporting_period),
            checkpoint_policy=_checked_policy(
                checkpoint_policy, searcher_metric, smaller_is_better, self._context._exp_conf or {}
            ),
            latest_checkpoint=latest_checkpoint,
            step_zero_validation=step_zero_validation,
            test_mode=test_mode,
            profiling_enabled=profiling_enabled,
            time_limit=_checked_seconds(time_limit),
            on_nan=checked_policy(on_nan),
            load_data=_load_data(self._trial, self._context),
            code_dir=self._context._code_dir,
        )
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


def _checked_length(max_length: Any, config: dict[str, Any], context: PyTorchTrialContext) -> TrainUnit:
    """Return `max_length`, or the length in the configuration; raise if there is none or it is invalid."""
    if max_length is None:
        max_length = _configured_length(config, context)
    if max_length is None:
        raise ValueError("fit: max_length is required: say how long to train, for example max_length=pytorch.Epoch(10)")
    if not isinstance(max_length, (Batch, Epoch)) or type(max_length.value) is not int:
        raise TypeError(f"fit: max_length is a Batch or an Epoch of a whole number, got {max_length!r}")
    return max_length


def _configured_length(config: dict[str, Any], context: PyTorchTrialContext) -> TrainUnit | None:
    """Return the training length in the searcher block of a configuration, or None."""
    searcher = config.get("searcher") or {}
    length = searcher.get("max_length")
    if length is None:
        known = searcher.get("time_metric") in ("batches", "records", "epochs") and searcher.get("max_time")
        return _unit({searcher["time_metric"]: searcher["max_time"]}, context) if known else None
    warnings.warn(
        "searcher.max_length in the configuration is deprecated: pass max_length to fit()",
        FutureWarning,
        stacklevel=4,
    )
    return Batch(length) if isinstance(length, int) else _unit(length, context)


def _unit(length: dict[str, int], context: PyTorchTrialContext) -> TrainUnit:
    size = context.get_global_batch_size() if "records" in length else None
    return TrainUnit._from_values(**length, global_batch_size=size)


def _checked_period(name: str, period: Any) -> TrainUnit | None:
    """Return a period argument if it is valid or None, else raise TypeError."""
    if period is None:
        return None
    value = getattr(period, "value", None)
    whole = isinstance(value, int) or (isinstance(value, Container) and not isinstance(value, (str, bytes)))
    if not isinstance(period, (Batch, Epoch)) or not whole:
        raise TypeError(
            f"fit: {name} is None, or a Batch or an Epoch of a whole number or a container of them, got {period!r}"
        )
    return period


def _checked_reporting_period(period: Any) -> TrainUnit:
    if period is None:
        raise TypeError("fit: reporting_period is a Batch or an Epoch, got None")
    checked = _checked_period("reporting_period", period)
    assert checked is not None
    return checked


def _checked_seconds(limit: Any) -> float | None:
    """Return a time limit in seconds, or None; raise ValueError if it is not positive."""
    seconds = limit.total_seconds() if isinstance(limit, timedelta) else limit
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ValueError(f"fit: time_limit is a number of seconds above 0 or a timedelta, got {limit!r}")
    return float(seconds)


def _checked_policy(name: Any, metric: str | None, smaller_is_better: bool, config: dict[str, Any]) -> CheckpointPolicy:
    """Return the checkpoint policy with its metric; `best` becomes `all` if no metric is known."""
    if name not in _POLICIES:
        raise ValueError(f"fit: checkpoint_policy is one of {', '.join(_POLICIES)}, got {name!r}")
    searcher = config.get("searcher") or {}
    if metric is None and searcher.get("metric"):
        metric, smaller_is_better = searcher["metric"], searcher.get("smaller_is_better", True)
    if name == "best" and metric is None:
        logger.info("fit: no searcher_metric given, so a checkpoint is saved after every validation")
        name = "all"
    return CheckpointPolicy(name, metric, smaller_is_better)


def _load_data(trial: PyTorchTrial, context: PyTorchTrialContext) -> dict[str, Any]:
    """Return the data that `load_trial_from_checkpoint_path` needs to create the trial again."""
    kind, program, code = type(trial), this_program(), context._code_dir
    module = "__main__" if kind.__module__ == "__mp_main__" else kind.__module__  # its name in a spawned process
    return {
        "trial_type": "PyTorchTrial",
        "experiment_config": mask_secrets(to_jsonable(context._exp_conf, "exp_conf")),
        "hparams": to_jsonable(context._hparams, "hparams", otherwise=lambda value, _: as_text(value)),
        "trial_cls_spec": f"{module}:{kind.__qualname__}",
        "main_script": _below(code, program.file) if program.kind == "script" else None,
        "main_module": program.module,
        "import_paths": _import_paths(code),
        "is_trainer": True,
    }


def _import_paths(code: Path | None) -> list[str]:
    """Return the directories below the program's directory where its modules are found, in search order."""
    installed = Path(sys.prefix).resolve()
    places = [Path(place).resolve() for place in sys.path]
    found = [_below(code, place) for place in places if place.is_dir() and not place.is_relative_to(installed)]
    return [place for place in dict.fromkeys(found) if place is not None]


def _below(directory: Path | None, path: Path | None) -> str | None:
    """Return the path relative to the directory, with slashes, or None if it lies elsewhere."""
    if directory is None or path is None or not path.is_relative_to(directory.resolve()):
        return None
    return path.relative_to(directory.resolve()).as_posix()
