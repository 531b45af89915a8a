"""The Python SDK, and functions around training whose interface may still change."""

from __future__ import annotations

from typing import Any

from determined.experimental.checkpoint import Checkpoint
from determined.experimental.cluster_types import Project, User, Workspace
from determined.experimental.determined import Determined
from determined.experimental.enums import (
    CheckpointSortBy,
    CheckpointState,
    DownloadMode,
    ExperimentSortBy,
    ExperimentState,
    LogLevel,
    ModelSortBy,
    OrderBy,
    TrialSortBy,
    TrialState,
)
from determined.experimental.experiment import Experiment
from determined.experimental.metrics import TrialMetrics
from determined.experimental.model import Model, ModelVersion
from determined.experimental.old_names import old_name
from determined.experimental.trial import Trial

__all__ = [
    "Determined",
    "Experiment",
    "Trial",
    "TrialMetrics",
    "Checkpoint",
    "Model",
    "ModelVersion",
    "OrderBy",
    "ExperimentState",
    "ExperimentSortBy",
    "TrialState",
    "TrialSortBy",
    "CheckpointState",
    "CheckpointSortBy",
    "ModelSortBy",
    "DownloadMode",
    "LogLevel",
    "Project",
    "User",
    "Workspace",
    "test_one_batch",
]


def test_one_batch(trial_class: type[Any], config: dict[str, Any]) -> None:
    """Train and validate one batch and save a checkpoint, to check that a trial class works."""
    # Imported on use: the SDK works without torch.
    from determined.pytorch.run import exec_trial

    exec_trial.test_one_batch(trial_class, config)


# Otherwise pytest would collect the function wherever it is imported.
test_one_batch.__test__ = False  # type: ignore[attr-defined]


def __getattr__(name: str) -> Any:
    return old_name(__name__, name)
