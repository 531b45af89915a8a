"""Train a `PyTorchTrial` class as an experiment configuration specifies: the entrypoint `module:TrialClass`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

from determined.config.hyperparameters import sample_hyperparameters
from determined.config.random_stream import RandomStream
from determined.info import get_cluster_info
from determined.program import Program
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.run.initialize import init
from determined.pytorch.trainer import Trainer
from determined.pytorch.trial import PyTorchTrial
from determined.pytorch.units import Batch, TrainUnit

logger = logging.getLogger("determined.pytorch")

_BATCHES_PER_STEP = 100  # the default of releases that counted in steps


def run(trial_class: type[PyTorchTrial], config: dict[str, Any]) -> None:
    """Train `trial_class` with the length, periods, checkpoint policy, aggregation and seeds of `config`.

    Inside an experiment the hyperparameters, seed and checkpoint of the trial are used. Otherwise hyperparameters are
    sampled from the configuration with seed 0.
    """
    info = get_cluster_info()
    optimizations = config.get("optimizations") or {}
    with init(
        hparams=info.trial.hparams if info is not None else _hyperparameters(config),
        exp_conf=config,
        aggregation_frequency=optimizations.get("aggregation_frequency", 1),
        seed=None if info is not None else (config.get("reproducibility") or {}).get("experiment_seed"),
        _program=_program_of(trial_class),
    ) as context:
        if context.distributed.rank != 0:
            logging.getLogger().setLevel(max(logging.getLogger().level, logging.WARNING))
        context._default_fp16_compression = optimizations.get("gradient_compression", False)
        context._default_average_gradients = optimizations.get("average_aggregated_gradients", True)
        searcher = config.get("searcher") or {}
        Trainer(trial_class(context), context).fit(
            max_length=_length(config, context),
            checkpoint_period=_period(config, "min_checkpoint_period", context),
            validation_period=_period(config, "min_validation_period", context),
            reporting_period=Batch(
                config.get("scheduling_unit") or config.get("batches_per_step") or _BATCHES_PER_STEP
            ),
            checkpoint_policy=config.get("checkpoint_policy", "best"),
            step_zero_validation=config.get("perform_initial_validation", False),
            latest_checkpoint=info.latest_checkpoint if info is not None else None,
            profiling_enabled=(config.get("profiling") or {}).get("enabled", False),
            searcher_metric=searcher.get("metric"),
            smaller_is_better=searcher.get("smaller_is_better", True),
        )


def _program_of(trial_class: type[PyTorchTrial]) -> Program | None:
    """Return the module of the class as the program of the run, or None if it has no file.

    `__main__` would be the harness, whose code and name do not belong to the run.
    """
    file = getattr(sys.modules.get(trial_class.__module__), "__file__", None)
    return Program("module", Path(file).resolve(), trial_class.__module__) if file else None


def test_one_batch(trial_class: type[PyTorchTrial], config: dict[str, Any] | None = None) -> PyTorchTrial:
    """Train and validate one batch and save a checkpoint, to check that a trial class works; return the trial."""
    config = config or {}
    with init(hparams=_hyperparameters(config), exp_conf=config, enable_tensorboard_logging=False) as context:
        trial = trial_class(context)
        Trainer(trial, context).fit(max_length=Batch(1), test_mode=True, checkpoint_policy="none")
    return trial


def _hyperparameters(config: dict[str, Any]) -> dict[str, Any]:
    """Return hyperparameters for a run without a searcher: constants, and samples drawn with seed 0."""
    return sample_hyperparameters(config.get("hyperparameters") or {}, RandomStream(0))


def _length(config: dict[str, Any], context: PyTorchTrialContext) -> TrainUnit:
    """Return the training length from the searcher block of any release; 0.12 counted steps of 100 batches."""
    searcher = config.get("searcher") or {}
    if searcher.get("max_length") is not None:
        return _unit(searcher["max_length"], context)
    if searcher.get("max_time") is not None:
        metric = searcher.get("time_metric") or "batches"
        return _unit({metric: searcher["max_time"]}, context)
    steps = searcher.get("max_steps", searcher.get("target_trial_steps"))
    if steps is not None:
        return Batch(steps * (config.get("batches_per_step") or _BATCHES_PER_STEP))
    raise ValueError(
        "the configuration does not say how long to train: set searcher.max_length, for example {batches: 1000}"
    )


def _period(config: dict[str, Any], name: str, context: PyTorchTrialContext) -> TrainUnit | None:
    """Return the period set under `name`, or None if it is unset or below 1."""
    period = config.get(name)
    if isinstance(period, int):  # up to 0.12: in steps
        period = {"batches": period * (config.get("batches_per_step") or _BATCHES_PER_STEP)}
    if not period or next(iter(period.values())) < 1:
        return None
    return _unit(period, context)


def _unit(length: int | dict[str, int], context: PyTorchTrialContext) -> TrainUnit:
    """Return a length of a configuration: a number of batches, or a dict with one unit."""
    if isinstance(length, int):
        return Batch(length)
    if set(length) - {"batches", "records", "epochs"}:
        raise ValueError(f"a length is given in batches, records or epochs, got {length!r}")
    size = context.get_global_batch_size() if "records" in length else None
    return TrainUnit._from_values(**length, global_batch_size=size)
