"""The Python SDK as module-level functions: those of `Determined`, on one store for the complete program.

from determined.experimental import client

experiment = client.create_experiment("config.yaml", ".")
experiment.wait()
best = experiment.list_checkpoints(max_results=1)[0]
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from determined.errors import CheckpointStateException
from determined.experimental.charts.comparison import Compared, Comparison
from determined.experimental.charts.selection import MOST_TRIALS
from determined.experimental.checkpoint import Checkpoint, CheckpointTrainingMetadata
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
from determined.experimental.output import Output
from determined.experimental.trial import Trial

if TYPE_CHECKING:
    from determined.curves.chart_data import Axis

_default: Determined | None = None
# Two threads must not create two objects, and so two connections.
_lock = threading.Lock()


def login(
    master: str | None = None,
    user: str | None = None,
    password: str | None = None,
    cert_path: str | None = None,
    cert_name: str | None = None,
    noverify: bool = False,
) -> None:
    """Choose the store of this module. Must be the first call; no password is needed.

    `master` may be the path of a store file or a `postgresql://` URL. All other arguments are accepted and ignored.
    """
    global _default
    with _lock:
        # A program that already uses another store would continue with objects of both.
        if _default is not None:
            raise ValueError("login() must be the first call; for several stores create Determined objects")
        _default = Determined(master, user, password, cert_path, cert_name, noverify)


def _determined() -> Determined:
    """Return the `Determined` object of this module; create it on first use."""
    global _default
    with _lock:
        if _default is None:
            _default = Determined()
        return _default


def create_experiment(
    config: str | os.PathLike[str] | dict[str, Any],
    model_dir: str | os.PathLike[str] | None = None,
    includes: Sequence[str | os.PathLike[str]] | None = None,
    project_id: int | None = None,
    template: str | None = None,
    *,
    paused: bool = False,
    blocking: bool = False,
    engine: str = "local",
) -> Experiment:
    """See `Determined.create_experiment`."""
    return _determined().create_experiment(
        config, model_dir, includes, project_id, template, paused=paused, blocking=blocking, engine=engine
    )


def get_experiment(experiment_id: int) -> Experiment:
    """Return the experiment with this id."""
    return _determined().get_experiment(experiment_id)


def list_experiments(
    sort_by: ExperimentSortBy | None = None,
    order_by: OrderBy | None = None,
    experiment_ids: Sequence[int] | None = None,
    labels: Sequence[str] | None = None,
    users: Sequence[str] | None = None,
    states: Sequence[ExperimentState] | None = None,
    name: str | None = None,
    project_id: int | None = None,
    *,
    archived: bool = True,
) -> list[Experiment]:
    """See `Determined.list_experiments`."""
    return _determined().list_experiments(
        sort_by, order_by, experiment_ids, labels, users, states, name, project_id, archived=archived
    )


def get_trial(trial_id: int) -> Trial:
    """Return the trial with this id."""
    return _determined().get_trial(trial_id)


def get_checkpoint(uuid: str) -> Checkpoint:
    """Return the checkpoint with this id."""
    return _determined().get_checkpoint(uuid)


def get_output(uuid: str) -> Output:
    """Return the output with this id."""
    return _determined().get_output(uuid)


def compare(
    runs: Iterable[Compared] | Compared,
    metric: str | None = None,
    *,
    axis: Axis = "batches",
    max_trials: int = MOST_TRIALS,
) -> Comparison:
    """Return trials side by side: curves and a table in a notebook; see `Determined.compare`."""
    return _determined().compare(runs, metric, axis=axis, max_trials=max_trials)


def iter_trials_metrics(trial_ids: Sequence[int], group: str | None = None) -> Iterator[TrialMetrics]:
    """See `Determined.iter_trials_metrics`."""
    return _determined().iter_trials_metrics(trial_ids, group)


def stream_trials_metrics(trial_ids: Sequence[int], group: str | None = None) -> Iterator[TrialMetrics]:
    """Deprecated name of `iter_trials_metrics`."""
    return _determined().stream_trials_metrics(trial_ids, group)


def stream_trials_training_metrics(trial_ids: Sequence[int]) -> Iterator[TrialMetrics]:
    """Deprecated form of `iter_trials_metrics(trial_ids, "training")`."""
    return _determined().stream_trials_training_metrics(trial_ids)


def stream_trials_validation_metrics(trial_ids: Sequence[int]) -> Iterator[TrialMetrics]:
    """Deprecated form of `iter_trials_metrics(trial_ids, "validation")`."""
    return _determined().stream_trials_validation_metrics(trial_ids)


def create_model(
    name: str,
    description: str | None = "",
    metadata: dict[str, Any] | None = None,
    labels: Sequence[str] | None = None,
    workspace_name: str | None = None,
) -> Model:
    """Add a model to the registry; its name must be new."""
    return _determined().create_model(name, description, metadata, labels, workspace_name)


def get_model(identifier: str | int) -> Model:
    """Return the model with this name or id."""
    return _determined().get_model(identifier)


def get_model_by_id(model_id: int) -> Model:
    """Deprecated form of `get_model(id)`."""
    return _determined().get_model_by_id(model_id)


def list_models(
    sort_by: ModelSortBy = ModelSortBy.NAME,
    order_by: OrderBy = OrderBy.ASC,
    name: str | None = None,
    description: str | None = None,
    model_id: int | None = None,
    workspace_names: Sequence[str] | None = None,
    workspace_ids: Sequence[int] | None = None,
) -> list[Model]:
    """Return models, filtered and sorted; see `Determined.list_models`."""
    return _determined().list_models(sort_by, order_by, name, description, model_id, workspace_names, workspace_ids)


def get_models(sort_by: ModelSortBy = ModelSortBy.NAME, order_by: OrderBy = OrderBy.ASC) -> list[Model]:
    """Deprecated name of `list_models`."""
    return _determined().get_models(sort_by, order_by)


def get_model_labels() -> list[str]:
    """Return all labels of models, most frequent first."""
    return _determined().get_model_labels()


def __getattr__(name: str) -> Any:
    return old_name(__name__, name)


__all__ = [
    "login",
    "create_experiment",
    "get_experiment",
    "list_experiments",
    "get_trial",
    "get_checkpoint",
    "get_output",
    "compare",
    "iter_trials_metrics",
    "stream_trials_metrics",
    "stream_trials_training_metrics",
    "stream_trials_validation_metrics",
    "create_model",
    "get_model",
    "get_model_by_id",
    "list_models",
    "get_models",
    "get_model_labels",
    "Checkpoint",
    "CheckpointSortBy",
    "CheckpointState",
    "CheckpointStateException",
    "CheckpointTrainingMetadata",
    "Comparison",
    "Determined",
    "DownloadMode",
    "Experiment",
    "ExperimentSortBy",
    "ExperimentState",
    "LogLevel",
    "Model",
    "ModelSortBy",
    "ModelVersion",
    "OrderBy",
    "Output",
    "Project",
    "Trial",
    "TrialMetrics",
    "TrialSortBy",
    "TrialState",
    "User",
    "Workspace",
]
