"""Internal names of earlier releases that third-party programs came to use."""

from __future__ import annotations

import logging
from typing import Any

import torch

from determined.pytorch.plan import BoundaryType
from determined.pytorch.units import TrainUnit
from determined.tensorboard.metric_writers.base import training_rows, validation_rows

logger = logging.getLogger("determined.pytorch")


class _TrainBoundary:
    """A kind of boundary with its unit."""

    def __init__(self, step_type: BoundaryType, unit: TrainUnit) -> None:
        self.step_type = step_type
        self.unit = unit
        self.limit_reached = False


def _log_tb_metrics(
    writer: Any, kind: str, steps_completed: int, metrics: dict[str, Any], batch_metrics: Any = None
) -> None:
    """Write a report to a SummaryWriter by the rules of the loop."""
    rows = (
        validation_rows(steps_completed, metrics)
        if kind in ("val", "validation")
        else training_rows(steps_completed, metrics, batch_metrics)
    )
    for tag, step, value in rows:
        writer.add_scalar(tag, value, step)


def reset_parameters(model: torch.nn.Module) -> None:
    """First generation: let every layer of a model draw its weights again."""
    logger.warning("reset_parameters is deprecated: layers draw their weights when they are made")
    for layer in model.modules():
        reset = getattr(layer, "reset_parameters", None)
        if callable(reset):
            reset()
