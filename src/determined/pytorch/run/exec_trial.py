"""Train a `PyTorchTrial` class as an experiment configuration specifies: the entrypoint `module:TrialClass`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

from determined.config.hyperparameters import sample_hyperparameters
from determined.config.random_stream import RandomStream
from determined.config.stored import PlainLength, StoredConfig
from determined.info import get_cluster_info
from determined.pytorch.configured_length import configured_length, train_unit
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.run.initialize import init, open_context
from determined.pytorch.trainer import Trainer
from determined.pytorch.trial import PyTorchTrial
from determined.pytorch.units import Batch, TrainUnit
from determined.user_code.program import Program

logger = logging.getLogger("determined.pytorch")


def run(trial_class: type[PyTorchTrial], config: dict[str, Any]) -> None:
    """Train `trial_class` with the length, periods, checkpoint policy, aggregation and seeds of `config`.

    Inside an experiment the hyperparameters, seed and checkpoint of the trial are used. Otherwise hyperparameters are
    sampled from the configuration with seed 0.
    """
    info = get_cluster_info()
    settings = StoredConfig(config)
    optimizations, searcher = settings.optimizations, settings.searcher
    with open_context(
        hparams=info.trial.hparams if info is not None else _hyperparameters(settings),
        exp_conf=config,
        aggregation_frequency=optimizations.aggregation_frequency,
        seed=None if info is not None else settings.reproducibility.experiment_seed,
        program=_program_of(trial_class),
    ) as context:
        if context.distributed.rank != 0:
            # Otherwise each line would appear once per rank.
            logging.getLogger().setLevel(max(logging.getLogger().level, logging.WARNING))
        context._default_fp16_compression = optimizations.gradient_compression
        context._default_average_gradients = optimizations.average_aggregated_gradients
        Trainer(trial_class(context), context).fit(
            max_length=_length(settings, context),
            checkpoint_period=_period(settings.min_checkpoint_period, settings, context),
            validation_period=_period(settings.min_validation_period, settings, context),
            reporting_period=Batch(settings.batches_between_reports),
            checkpoint_policy=settings.checkpoint_policy,
            step_zero_validation=settings.perform_initial_validation,
            # The runner's latest checkpoint: a restarted trial always continues.
            latest_checkpoint=info.latest_checkpoint if info is not None else None,
            profiling_enabled=settings.profiling.enabled,
            searcher_metric=searcher.metric,
            smaller_is_better=searcher.smaller_is_better,
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
    with init(
        hparams=_hyperparameters(StoredConfig(config)), exp_conf=config, enable_tensorboard_logging=False
    ) as context:
        trial = trial_class(context)
        Trainer(trial, context).fit(max_length=Batch(1), test_mode=True, checkpoint_policy="none")
    return trial


def _hyperparameters(config: StoredConfig) -> dict[str, Any]:
    """Return hyperparameters for a run without a searcher: constants, and samples drawn with seed 0."""
    # A fixed seed, so that a test with the same configuration is repeatable.
    return sample_hyperparameters(config.hyperparameters, RandomStream(0))


def _length(config: StoredConfig, context: PyTorchTrialContext) -> TrainUnit:
    """Return the training length in the configuration; raise ValueError if there is none."""
    length = configured_length(config, context)
    if length is None:
        raise ValueError(
            "the configuration does not say how many batches, records or epochs to train: set searcher.max_length, "
            "for example {batches: 1000}"
        )
    return length


def _period(period: PlainLength | None, config: StoredConfig, context: PyTorchTrialContext) -> TrainUnit | None:
    """Return a configured period, or None if it is unset or below 1."""
    if isinstance(period, int):  # up to 0.12: in steps
        period = {"batches": period * config.batches_per_step}
    if not period or next(iter(period.values())) < 1:
        # 0 or less means never, as in earlier releases.
        return None
    return train_unit(period, context)
