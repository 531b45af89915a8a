"""Every name of the old SDK exists with its arguments and defaults, or explains why it does not."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import warnings
from typing import Any

import pytest

from determined import experimental
from determined.core.experimental import ExperimentalContext
from determined.experimental import client, core_v2
from determined.experimental.determined import Determined

ANY = object()  # the argument exists; its default was never documented
MUST = inspect.Parameter.empty

SORTED = {"sort_by": None, "order_by": None}
BEST = {"sort_by": None, "smaller_is_better": None}

# Functions that `Determined` and the module `client` share: arguments in their order, with their defaults.
WAY_IN: dict[str, dict[str, Any]] = {
    "create_experiment": {
        "config": MUST,
        "model_dir": None,
        "includes": None,
        "project_id": None,
        "template": None,
        "paused": False,
        "blocking": False,
        "engine": "local",
    },
    "get_experiment": {"experiment_id": MUST},
    "list_experiments": {
        **SORTED,
        **dict.fromkeys(("experiment_ids", "labels", "users", "states", "name", "project_id")),
    },
    "get_trial": {"trial_id": MUST},
    "get_checkpoint": {"uuid": MUST},
    "iter_trials_metrics": {"trial_ids": MUST, "group": ANY},
    "stream_trials_metrics": {"trial_ids": MUST, "group": ANY},
    "stream_trials_training_metrics": {"trial_ids": MUST},
    "stream_trials_validation_metrics": {"trial_ids": MUST},
    "create_model": {"name": MUST, "description": "", "metadata": None, "labels": None, "workspace_name": None},
    "get_model": {"identifier": MUST},
    "get_model_by_id": {"model_id": MUST},
    "list_models": {
        "sort_by": client.ModelSortBy.NAME,
        "order_by": client.OrderBy.ASC,
        **dict.fromkeys(("name", "description", "model_id", "workspace_names", "workspace_ids")),
    },
    "get_models": {"sort_by": ANY, "order_by": ANY},
    "get_model_labels": {},
}
METHODS: dict[Any, dict[str, dict[str, Any]]] = {
    client.Experiment: {
        "wait": {"interval": 5.0},
        "await_first_trial": {"interval": 0.1},
        **{
            name: {}
            for name in (
                *("activate", "pause", "cancel", "kill", "archive", "unarchive", "delete", "reload", "get_config"),
                *("delete_tensorboard_files", "best_trial"),
            )
        },
        "iter_trials": {"sort_by": ANY, "order_by": ANY, "limit": None},
        "list_trials": {"sort_by": ANY, "order_by": ANY, "limit": None},
        "get_trials": {"sort_by": ANY, "order_by": ANY},
        "list_checkpoints": {**SORTED, "max_results": None},
        "top_checkpoint": BEST,
        "top_n_checkpoints": {"limit": MUST, **BEST},
        "set_name": {"name": MUST},
        "set_description": {"description": MUST},
        "set_notes": {"notes": MUST},
        "add_label": {"label": MUST},
        "remove_label": {"label": MUST},
        "set_labels": {"labels": MUST},
        "download_code": {"output_dir": None},
        "run": {"interval": 5.0},
        "metrics_frame": {"group": "validation"},
    },
    client.Trial: {
        "iter_metrics": {"group": ANY},
        "stream_metrics": {"group": ANY},
        "stream_training_metrics": {},
        "stream_validation_metrics": {},
        "iter_logs": {
            "follow": False,
            **dict.fromkeys(
                (
                    *("head", "tail", "container_ids", "rank_ids", "stdtypes", "min_level"),
                    *("timestamp_before", "timestamp_after", "sources", "search_text"),
                )
            ),
        },
        "logs": {"follow": False},
        "list_checkpoints": {**SORTED, "max_results": None},
        "get_checkpoints": SORTED,
        "top_checkpoint": BEST,
        "select_checkpoint": {"latest": False, "best": False, "uuid": None, **BEST},
        "get_experiment": {},
        "kill": {},
        "reload": {},
        "metrics_frame": {"group": "validation"},
    },
    client.Checkpoint: {
        "download": {"path": None, "mode": client.DownloadMode.AUTO},
        "add_metadata": {"metadata": MUST},
        "remove_metadata": {"keys": MUST},
        "write_metadata_file": {"path": MUST},
        "delete": {},
        "remove_files": {"globs": MUST},
        "get_metrics": {"group": None},
        "load": {"path": None, "trial_class": None, "trial_kwargs": None},
        "reload": {},
    },
    client.Model: {
        "register_version": {"checkpoint_uuid": MUST},
        "get_version": {"version": -1},
        "list_versions": {"order_by": client.OrderBy.DESC},
        "get_versions": {"order_by": client.OrderBy.DESC},
        "add_metadata": {"metadata": MUST},
        "remove_metadata": {"keys": MUST},
        "set_labels": {"labels": MUST},
        "set_description": {"description": MUST},
        "archive": {},
        "unarchive": {},
        "delete": {},
        "reload": {},
    },
    client.ModelVersion: {
        "set_name": {"name": MUST},
        "set_notes": {"notes": MUST},
        "delete": {},
        "iter_metrics": {"group": ANY},
        "get_metrics": {"group": ANY},
        "download": {"path": None, "mode": client.DownloadMode.AUTO},
        "load": {"path": None, "trial_class": None, "trial_kwargs": None},
        "reload": {},
    },
    ExperimentalContext: {
        "report_task_using_checkpoint": {"checkpoint": MUST},
        "report_task_using_model_version": {"model_version": MUST},
    },
}
ATTRIBUTES: dict[Any, str] = {
    client.Experiment: "id config state archived name progress description notes labels project_id workspace_id",
    client.Trial: "id experiment_id hparams state summary_metrics",
    client.Checkpoint: "uuid task_id allocation_id report_time resources metadata state training "
    "trial_id experiment_config batch_number validation",
    client.Model: (
        "model_id name description creation_time last_updated_time metadata labels username workspace_id archived"
    ),
    client.ModelVersion: "model_id model_version name notes checkpoint metadata labels creation_time last_updated_time",
}
FIELDS: dict[Any, str] = {
    client.TrialMetrics: "trial_id trial_run_id steps_completed end_time metrics group batch_metrics rank",
    client.CheckpointTrainingMetadata: "experiment_config experiment_id trial_id hparams validation_metrics",
    core_v2.DefaultConfig: ("name hparams data description labels workspace project checkpoint_storage searcher"),
    core_v2.UnmanagedConfig: "workspace project external_experiment_id external_trial_id",
    core_v2.Config: (
        "name hparams data description labels workspace project checkpoint_storage searcher external_experiment_id "
        "external_trial_id notes"  # our additional fields come last: positional arguments keep their meaning
    ),
}
ENUMS: dict[type[enum.Enum], str] = {
    client.OrderBy: "ASC DESC ASCENDING DESCENDING",
    client.ExperimentState: "ACTIVE PAUSED COMPLETED CANCELED ERROR DELETED",
    client.TrialState: "ACTIVE PAUSED COMPLETED CANCELED ERROR RUNNING QUEUED",
    client.CheckpointState: "ACTIVE COMPLETED ERROR DELETED PARTIALLY_DELETED",
    client.ExperimentSortBy: "ID NAME STATE START_TIME END_TIME",
    client.TrialSortBy: "ID STATE START_TIME END_TIME",
    client.CheckpointSortBy: "UUID TRIAL_ID BATCH_NUMBER END_TIME STATE SEARCHER_METRIC",
    client.ModelSortBy: "NAME DESCRIPTION CREATION_TIME LAST_UPDATED_TIME",
    client.DownloadMode: "DIRECT MASTER AUTO",
    client.LogLevel: "TRACE DEBUG INFO WARNING ERROR CRITICAL",
}
RENAMED = {
    "ExperimentReference": client.Experiment,
    "TrialReference": client.Trial,
    **dict.fromkeys(("TrainingMetrics", "ValidationMetrics"), client.TrialMetrics),
    **dict.fromkeys(("ExperimentOrderBy", "TrialOrderBy", "CheckpointOrderBy", "ModelOrderBy"), client.OrderBy),
}
UNSERVED = {
    "create_user": "no users",
    "list_users": "no users",
    "whoami": "no users",
    "get_workspace": "no workspaces",
    "list_workspaces": "no workspaces",
    "list_oauth_clients": "no server to log in to",
}

CALLS = [
    *((owner, name, wanted) for owner in (client, Determined) for name, wanted in WAY_IN.items()),
    *((owner, name, wanted) for owner, methods in METHODS.items() for name, wanted in methods.items()),
    (experimental, "test_one_batch", {"trial_class": MUST, "config": MUST}),
    (core_v2, "init", {"config": None, "distributed": None, "checkpoint_storage": None}),
    (core_v2, "init_context", {"config": None, "distributed": None, "checkpoint_storage": None}),
    (core_v2, "close", {}),
    (core_v2, "url_reverse_webui_exp_view", {}),
    *(
        (
            owner,
            name,
            {**dict.fromkeys(("master", "user", "password", "cert_path", "cert_name")), "noverify": False},
        )
        for owner, name in ((client, "login"), (Determined, "__init__"))
    ),
]


@pytest.mark.parametrize(
    ("owner", "name", "wanted"), CALLS, ids=[f"{getattr(owner, '__name__', owner)}.{name}" for owner, name, _ in CALLS]
)
def test_calls(owner: Any, name: str, wanted: dict[str, Any]) -> None:
    parameters = {
        key: parameter
        for key, parameter in inspect.signature(getattr(owner, name)).parameters.items()
        if key != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    assert list(parameters)[: len(wanted)] == list(wanted), "more arguments come after those of the old SDK"
    for key, default in wanted.items():
        assert default is ANY or parameters[key].default == default, key
    for key in list(parameters)[len(wanted) :]:
        assert parameters[key].default is not MUST, f"{key} was never asked for"


def test_attributes_and_fields() -> None:
    for owner, names in ATTRIBUTES.items():
        for name in names.split():
            assert isinstance(inspect.getattr_static(owner, name), property), (owner, name)
    for owner, names in FIELDS.items():
        assert [field.name for field in dataclasses.fields(owner)] == names.split()
    for values, names in ENUMS.items():
        assert set(names.split()) <= set(values.__members__), values


def test_old_names_still_import() -> None:
    for module in (client, experimental):
        for name, now in RENAMED.items():
            with pytest.warns(FutureWarning, match=f"{name} is deprecated"):
                assert getattr(module, name) is now


@pytest.mark.parametrize("name", ["User", "Workspace", "Project"])
def test_types_of_a_cluster_can_be_named_and_not_made(name: str) -> None:
    kind = getattr(client, name)
    assert getattr(experimental, name) is kind
    assert not isinstance("a text", kind)
    with pytest.raises(TypeError, match=f"{name} cannot be created: there are no (accounts|workspaces|projects)"):
        kind(7)


def test_what_only_a_master_could_do_says_so() -> None:
    with Determined() as determined:
        for owner in (client, determined):
            for name, why in UNSERVED.items():
                assert not hasattr(owner, name)
                with pytest.raises(AttributeError, match=f"has no attribute '{name}': there (are|is) {why}"):
                    getattr(owner, name)
        with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
            determined.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_no_name_warns_that_is_not_old() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for module in (client, experimental, core_v2):
            for name in module.__all__:
                assert getattr(module, name) is not None
