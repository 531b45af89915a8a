"""`FitArguments`: the arguments of `Trainer.fit`, and the checks that a value has to pass to become one."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Container
from datetime import timedelta
from typing import Any, NamedTuple

from determined.config.stored import StoredConfig
from determined.pytorch.checkpoint.policy import SAVE_ALL, CheckpointPolicy
from determined.pytorch.configured_length import configured_length
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.metrics.nonfinite import OnNan
from determined.pytorch.plan import DEFAULT_REPORTING_PERIOD
from determined.pytorch.units import Batch, Epoch, TrainUnit

logger = logging.getLogger("determined.pytorch")

_POLICIES = ("best", "all", "none")


class FitArguments(NamedTuple):
    """The checked arguments of one `fit`; `Trainer.fit` describes each of them."""

    max_length: TrainUnit
    checkpoint_period: TrainUnit | None = None
    validation_period: TrainUnit | None = None
    reporting_period: TrainUnit = DEFAULT_REPORTING_PERIOD
    checkpoint_policy: CheckpointPolicy = SAVE_ALL
    latest_checkpoint: Any = None
    step_zero_validation: bool = False
    test_mode: bool = False
    profiling_enabled: bool = False
    time_limit: float | None = None  # in seconds
    on_nan: OnNan = "warn"


def checked_length(max_length: Any, config: dict[str, Any], context: PyTorchTrialContext) -> TrainUnit:
    """Return `max_length`, or the length in the configuration; raise if there is none or it is invalid."""
    if max_length is None:
        settings = StoredConfig(config)
        max_length = configured_length(settings, context)
        if settings.searcher.max_length is not None:
            warnings.warn(
                "searcher.max_length in the configuration is deprecated: pass max_length to fit()",
                FutureWarning,
                stacklevel=3,  # the line of the program that called fit(), which calls checked_length()
            )
    if max_length is None:
        raise ValueError("fit: max_length is required: say how long to train, for example max_length=pytorch.Epoch(10)")
    # bool is an int for isinstance, and `Batch(True)` is a mistake. A schedule is no length.
    if not isinstance(max_length, (Batch, Epoch)) or type(max_length.value) is not int:
        raise TypeError(f"fit: max_length is a Batch or an Epoch of a whole number, got {max_length!r}")
    return max_length


def checked_period(name: str, period: Any) -> TrainUnit | None:
    """Return a period argument if it is valid or None, else raise TypeError."""
    if period is None:
        return None
    value = getattr(period, "value", None)
    # Text is a container too, and `Batch("100")` would never be due.
    whole = isinstance(value, int) or (isinstance(value, Container) and not isinstance(value, (str, bytes)))
    if not isinstance(period, (Batch, Epoch)) or not whole:
        raise TypeError(
            f"fit: {name} must be None, or a Batch or an Epoch with a whole number or a list of them, got {period!r}"
        )
    return period


def checked_reporting_period(period: Any) -> TrainUnit:
    """Return the reporting period if it is valid, else raise TypeError: unlike the other periods it is required."""
    if period is None:
        # Without a period nothing would be reported or stopped before the end.
        raise TypeError("fit: reporting_period is a Batch or an Epoch, got None")
    checked = checked_period("reporting_period", period)
    assert checked is not None
    return checked


def checked_seconds(limit: Any) -> float | None:
    """Return a time limit in seconds, or None; raise ValueError if it is not positive."""
    seconds = limit.total_seconds() if isinstance(limit, timedelta) else limit
    if seconds is None:
        return None
    # Written as `not > 0`, so that NaN is refused as well.
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ValueError(f"fit: time_limit is a number of seconds above 0 or a timedelta, got {limit!r}")
    return float(seconds)


def checked_policy(name: Any, metric: str | None, smaller_is_better: bool, config: dict[str, Any]) -> CheckpointPolicy:
    """Return the checkpoint policy with its metric; `best` becomes `all` if no metric is known."""
    if name not in _POLICIES:
        raise ValueError(f"fit: checkpoint_policy is one of {', '.join(_POLICIES)}, got {name!r}")
    searcher = StoredConfig(config).searcher
    # The searcher's metric is used with its own direction; a given one comes with `smaller_is_better`.
    if metric is None and searcher.metric:
        metric, smaller_is_better = searcher.metric, searcher.smaller_is_better
    if name == "best" and metric is None:
        logger.info("fit: no searcher_metric given, so a checkpoint is saved after every validation")
        name = "all"
    return CheckpointPolicy(name, metric, smaller_is_better)
