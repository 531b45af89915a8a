"""Every field of an experiment configuration: the values that it takes, and its default."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from determined.config.blocks.storage import LocalStorage
from determined.config.experiment import ExperimentConfig, load_experiment
from determined.config.length import Length
from determined.config.reading.catalog import catalog
from determined.searchers.methods.adaptive_asha import AdaptiveAsha
from determined.searchers.methods.random import RandomSearch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MINIMAL: dict[str, Any] = {
    "entrypoint": "model_def:MyTrial",
    "searcher": {"name": "single", "metric": "validation_loss"},
}


def with_value(path: str, value: Any, base: dict[str, Any] = MINIMAL) -> dict[str, Any]:
    """Return the base with one field set."""
    config = copy.deepcopy(base)
    *blocks, name = path.split(".")
    inner = config
    for block in blocks:
        inner = inner.setdefault(block, {})
    inner[name] = value
    return config


def value_at(config: dict[str, Any], path: str) -> Any:
    inner: Any = config
    for name in path.split("."):
        inner = inner.get(name) if isinstance(inner, dict) else None
    return inner


def searcher(name: str, **fields: Any) -> dict[str, Any]:
    return {**MINIMAL, "searcher": {"name": name, "metric": "loss", **fields}}


RANDOM = searcher("random", max_trials=4)
GRID = searcher("grid")
HALVING = searcher("async_halving", max_trials=4, num_rungs=2, max_time=16, time_metric="epochs")
ADAPTIVE = searcher("adaptive_asha", max_trials=4, max_time=16, time_metric="epochs")
PBT = searcher("pbt", population_size=4, num_rounds=3, length_per_round={"batches": 10})
OPTUNA = searcher("optuna", max_trials=4)
TIMED_OPTUNA = searcher("optuna", max_trials=4, max_time=9, time_metric="epochs")


def storage(kind: str, **fields: Any) -> dict[str, Any]:
    return {**MINIMAL, "checkpoint_storage": {"type": kind, **fields}}


SHARED_FS = storage("shared_fs", host_path="/data")
DIRECTORY = storage("directory", container_path="/data")
S3 = storage("s3", bucket="b")
GCS = storage("gcs", bucket="b")
AZURE = storage("azure", container="c", account_url="https://me.blob.example")

# path, base, its default, values it takes (as they are in the effective configuration)
FIELDS: list[tuple[str, dict[str, Any], Any, list[Any]]] = [
    ("name", MINIMAL, None, ["mnist", "ü: x"]),
    ("description", MINIMAL, None, ["free text", "with\nlines", ""]),
    ("labels", MINIMAL, [], [["a", "b"]]),
    ("data", MINIMAL, {}, [{"url": "x", "deep": {"list": [1, None, {"a": 2.5}]}, "none": None}]),
    ("entrypoint", MINIMAL, "model_def:MyTrial", ["python3 train.py --lr 0.1", ["python3", "train.py"], "a.b:C.D"]),
    ("hyperparameters", MINIMAL, {}, [{"lr": 0.1, "layers": [1, 2], "none": None, "group": {}}]),
    ("checkpoint_policy", MINIMAL, "best", ["best", "all", "none"]),
    ("min_validation_period", MINIMAL, {"batches": 0}, [{"batches": 5}, {"epochs": 1}, {"records": 0}]),
    ("min_checkpoint_period", MINIMAL, {"batches": 0}, [{"batches": 5}, {"epochs": 1}, {"records": 10}]),
    ("perform_initial_validation", MINIMAL, False, [True, False]),
    ("scheduling_unit", MINIMAL, 100, [1, 1000]),
    ("records_per_epoch", MINIMAL, None, [0, 50000]),
    ("max_restarts", MINIMAL, 5, [0, 7]),
    ("preemption_timeout", MINIMAL, 3600, [0, 60]),
    ("hang_timeout", MINIMAL, 1800, [None, 0.5, 60]),
    ("max_trial_seconds", MINIMAL, None, [0.5, 3600]),
    ("startup_hook", MINIMAL, True, [False]),
    ("debug", MINIMAL, False, [True]),
    ("reproducibility.experiment_seed", MINIMAL, None, [0, 42, 2**31 - 1]),
    ("searcher.smaller_is_better", MINIMAL, True, [False]),
    ("searcher.source_trial_id", MINIMAL, None, [3]),
    ("searcher.source_checkpoint_uuid", MINIMAL, None, ["3f1e"]),
    ("searcher.max_length", MINIMAL, None, [{"batches": 100}, {"epochs": 2}, {"records": 5000}, 7]),
    ("searcher.max_trials", RANDOM, 4, [1, 2000]),
    ("searcher.max_concurrent_trials", RANDOM, 16, [0, 1]),
    ("searcher.max_concurrent_trials", GRID, 16, [0, 1]),
    ("searcher.num_rungs", HALVING, 2, [1, 5]),
    ("searcher.max_trials", HALVING, 4, [1]),
    ("searcher.max_time", HALVING, 16, [1]),
    ("searcher.time_metric", HALVING, "epochs", ["batches", "my_metric"]),
    ("searcher.divisor", HALVING, 4, [2, 2.5]),
    ("searcher.max_concurrent_trials", HALVING, 16, [0]),
    ("searcher.stop_once", HALVING, True, [False]),
    ("searcher.max_trials", ADAPTIVE, 4, [1]),
    ("searcher.max_time", ADAPTIVE, 16, [1]),
    ("searcher.time_metric", ADAPTIVE, "epochs", ["batches"]),
    ("searcher.mode", ADAPTIVE, "standard", ["aggressive", "conservative"]),
    ("searcher.divisor", ADAPTIVE, 4, [3]),
    ("searcher.max_rungs", ADAPTIVE, 5, [1]),
    ("searcher.max_concurrent_trials", ADAPTIVE, 16, [0, 4]),
    ("searcher.bracket_rungs", ADAPTIVE, [], [[3, 2]]),
    ("searcher.stop_once", ADAPTIVE, True, [False]),
    ("searcher.population_size", PBT, 4, [1]),
    ("searcher.num_rounds", PBT, 3, [1]),
    ("searcher.length_per_round", PBT, {"batches": 10}, [{"epochs": 1}]),
    ("searcher.time_metric", PBT, "batches", ["records"]),
    ("searcher.replace_function.truncate_fraction", PBT, 0.2, [0, 0.5]),
    ("searcher.explore_function.resample_probability", PBT, 0.2, [0, 1]),
    ("searcher.explore_function.perturb_factor", PBT, 0.2, [0, 1.0]),
    ("searcher.max_trials", OPTUNA, 4, [9]),
    ("searcher.sampler", OPTUNA, "tpe", ["cmaes"]),
    ("searcher.sampler_options", OPTUNA, {}, [{"n_startup_trials": 5, "none": None}]),
    ("searcher.max_concurrent_trials", OPTUNA, 16, [2]),
    ("searcher.max_time", TIMED_OPTUNA, 9, [4]),
    ("searcher.time_metric", TIMED_OPTUNA, "epochs", ["batches"]),
    ("searcher.num_rungs", TIMED_OPTUNA, None, [3]),
    ("searcher.divisor", TIMED_OPTUNA, 4, [3]),
    ("resources.slots_per_trial", MINIMAL, 1, [0, 8]),
    ("resources.max_slots", MINIMAL, None, [4]),
    ("resources.slots", MINIMAL, None, [0, 4]),
    ("resources.is_single_node", MINIMAL, None, [True]),
    ("resources.engine", MINIMAL, None, ["local", "ray", "ray:10.0.0.1:6379"]),
    ("resources.node_timeout", MINIMAL, None, [5, 60.5]),
    ("resources.priority", MINIMAL, None, [1, 99]),
    ("resources.weight", MINIMAL, None, [1, 0.5]),
    ("resources.resource_pool", MINIMAL, None, ["gpus"]),
    ("resources.shm_size", MINIMAL, None, [1024, "1.5G", "128 MiB", "4gb"]),
    (
        "resources.devices",
        MINIMAL,
        None,
        [["/dev/a:/dev/b:rwm"], [{"host_path": "/dev/a", "container_path": "/dev/b"}]],
    ),
    ("resources.native_parallel", MINIMAL, None, [False]),
    ("resources.agent_label", MINIMAL, None, ["x", ""]),
    *(
        (f"checkpoint_storage.{name}", base, default, [0, 3])
        for name, default in (("save_experiment_best", 0), ("save_trial_best", 1), ("save_trial_latest", 1))
        for base in (MINIMAL, SHARED_FS, DIRECTORY, S3, GCS, AZURE)
    ),
    ("checkpoint_storage.storage_path", SHARED_FS, None, ["below", "/data/below"]),
    ("checkpoint_storage.propagation", SHARED_FS, "rprivate", ["shared"]),
    ("checkpoint_storage.container_path", SHARED_FS, None, ["/x"]),
    ("checkpoint_storage.checkpoint_path", SHARED_FS, None, ["x"]),
    ("checkpoint_storage.tensorboard_path", SHARED_FS, None, ["x"]),
    ("checkpoint_storage.endpoint_url", S3, None, ["https://host:9000"]),
    ("checkpoint_storage.prefix", S3, None, ["a/b", "a..b"]),
    ("checkpoint_storage.prefix", GCS, None, ["a/b"]),
    ("checkpoint_storage.credential", AZURE, None, ["Zm9v", "?sv=1&sig=x"]),
    ("optimizations.aggregation_frequency", MINIMAL, 1, [24]),
    ("optimizations.average_aggregated_gradients", MINIMAL, True, [False]),
    ("optimizations.gradient_compression", MINIMAL, False, [True]),
    ("optimizations.average_training_metrics", MINIMAL, None, [True]),
    ("optimizations.mixed_precision", MINIMAL, None, ["O0", "O3"]),
    ("optimizations.tensor_fusion_threshold", MINIMAL, None, [64]),
    ("optimizations.tensor_fusion_cycle_time", MINIMAL, None, [5]),
    ("optimizations.auto_tune_tensor_fusion", MINIMAL, None, [True]),
    ("optimizations.grad_updates_size_file", MINIMAL, None, ["x"]),
    ("sinks", MINIMAL, None, [{}, {"mlflow": {}, "wandb": {}}]),
    ("sinks.mlflow.tracking_uri", MINIMAL, None, ["https://mlflow.example"]),
    ("sinks.mlflow.experiment", MINIMAL, None, ["x"]),
    ("sinks.wandb.project", MINIMAL, None, ["x"]),
    ("sinks.wandb.entity", MINIMAL, None, ["x"]),
    ("sinks.wandb.mode", MINIMAL, None, ["online", "offline"]),
    ("sinks.trackio.project", MINIMAL, None, ["x"]),
    ("sinks.trackio.space_id", MINIMAL, None, ["me/space"]),
    ("profiling.enabled", MINIMAL, False, [True]),
    ("profiling.begin_on_batch", MINIMAL, None, [0, 5]),
    ("profiling.end_after_batch", MINIMAL, None, [7]),
    ("profiling.sync_timings", MINIMAL, None, [False]),
    ("environment.environment_variables", MINIMAL, [], [["A=1", "B=x=y", "PLAIN", "E="]]),
    ("environment.force_pull_image", MINIMAL, None, [True]),
    (
        "environment.registry_auth",
        MINIMAL,
        None,
        [
            {"username": "a", "password": "b", "serveraddress": "c", "email": "d"},
            {"auth": "e", "identitytoken": "f", "registrytoken": "g"},
        ],
    ),
    ("environment.ports", MINIMAL, None, [{"tensorboard": 6006}]),
    ("environment.proxy_ports", MINIMAL, None, [[{"proxy_port": 80, "proxy_tcp": True, "unauthenticated": False}]]),
    ("environment.add_capabilities", MINIMAL, None, [["SYS_PTRACE"]]),
    ("environment.drop_capabilities", MINIMAL, None, [["KILL"]]),
    (
        "environment.pod_spec",
        MINIMAL,
        None,
        [
            {"spec": {"containers": [{"name": None}]}},
            {"spec": {"containers": [{"name": "determined-container", "volumeMounts": [{"name": "v"}], "image": ""}]}},
            {"spec": {"containers": [{"name": "sidecar", "image": "x"}]}},
        ],
    ),
    (
        "bind_mounts",
        MINIMAL,
        [],
        [[{"host_path": "/a", "container_path": "b", "read_only": True, "propagation": "rshared"}]],
    ),
    ("retention_policy.log_retention_days", MINIMAL, None, [-1, 0, 32767]),
    (
        "integrations.webhooks",
        MINIMAL,
        None,
        [{"webhook_id": [1], "webhook_name": ["a"], "exclude": True}],
    ),
    ("integrations.pachyderm", MINIMAL, None, [{"dataset": {"repo": "x"}, "pachd": {"port": 1}, "proxy": {"a": "b"}}]),
    ("slurm", MINIMAL, None, [{"gpu_type": "tesla", "sbatch_args": ["-x"], "slots_per_node": 2}]),
    ("pbs", MINIMAL, None, [{"pbsbatch_args": ["-x"], "slots_per_node": 2}]),
    ("security.kerberos.config_file", MINIMAL, None, ["x"]),
    ("tensorboard_storage", MINIMAL, None, [{"type": "shared_fs"}]),
    ("data_layer", MINIMAL, None, [{"type": "shared_fs", "host_storage_path": "/x"}]),
]


@pytest.mark.parametrize(("path", "base", "default", "values"), FIELDS, ids=[field[0] for field in FIELDS])
def test_a_field(path: str, base: dict[str, Any], default: Any, values: list[Any]) -> None:
    assert value_at(load_experiment(base).config.plain(), path) == default
    if value_at(base, path) is None and None not in values:
        assert value_at(load_experiment(with_value(path, None, base)).config.plain(), path) == default
    for value in values:
        config = load_experiment(with_value(path, value, base)).config
        assert value_at(config.plain(), path) == value
        assert load_experiment(config.plain()).config == config


def test_the_table_above_has_every_field() -> None:
    tested = {path for path, *_ in FIELDS}
    covered = {"workspace", "project", "log_policies", "internal", "searcher", "environment.image"}
    known = set()
    for place, names in catalog(ExperimentConfig).items():
        shown = [part for part in place if not part.startswith("\0")]
        known |= {".".join([*shown, name]) for name in names}
    missing = {
        path
        for path in known
        if not any(path == done or path.startswith(done + ".") or done.startswith(path + ".") for done in tested)
        and not any(path == done or path.startswith(done + ".") for done in covered - {"searcher"})
    }
    always_there = {
        "searcher.name",
        "searcher.metric",
        "checkpoint_storage.type",
        "checkpoint_storage.host_path",
        "checkpoint_storage.bucket",
        "checkpoint_storage.container",
    }
    keys = {f"checkpoint_storage.{name}" for name in ("access_key", "secret_key", "connection_string", "account_url")}
    assert missing == always_there | keys


def test_the_keys_of_object_stores() -> None:
    s3 = storage("s3", bucket="b", access_key="a", secret_key="s")
    azure = storage("azure", container="c", connection_string="AccountName=x;AccountKey=Zm9v")
    for config in (s3, azure):
        assert (
            load_experiment(config).config.plain()["checkpoint_storage"].items() >= config["checkpoint_storage"].items()
        )


def test_the_effective_configuration_is_json_and_loads_as_itself() -> None:
    for base in (MINIMAL, RANDOM, GRID, HALVING, ADAPTIVE, PBT, OPTUNA, SHARED_FS, DIRECTORY, S3, GCS, AZURE):
        loaded = load_experiment(base)
        plain = loaded.config.plain()
        again = load_experiment(json.loads(json.dumps(plain, allow_nan=False)))
        assert again.config == loaded.config
        assert (again.notes, again.warnings, again.config.plain()) == ([], [], plain)


def test_a_configuration_cannot_be_changed_by_its_plain_form() -> None:
    config = load_experiment({**MINIMAL, "data": {"list": [1]}}).config
    config.plain()["data"]["list"].append(2)
    assert config.data == {"list": [1]}


def test_null_is_not_set() -> None:
    names = [name for name in ExperimentConfig.model_fields if name not in (*MINIMAL, "hang_timeout")]
    nulls: dict[str, Any] = {**MINIMAL, **dict.fromkeys(names), "resources": {"slots_per_trial": None}}
    assert load_experiment(nulls).config == load_experiment(MINIMAL).config


def test_labels_as_a_map_and_each_once() -> None:
    assert load_experiment({**MINIMAL, "labels": {"a": True, "b": False, "c": True}}).config.labels == ("a", "c")
    assert load_experiment({**MINIMAL, "labels": ["a", "b", "a"]}).config.labels == ("a", "b")


def test_workspace_and_project() -> None:
    config = load_experiment({**MINIMAL, "workspace": "w", "project": "p"}).config
    assert (config.workspace, config.project) == ("w", "p")


def test_numbers_of_the_class_trial_and_of_storage_are_attributes() -> None:
    config = load_experiment(ADAPTIVE).config
    assert isinstance(config.searcher, AdaptiveAsha)
    assert config.searcher.name == "adaptive_asha"
    assert (config.searcher.max_time, config.searcher.time_metric, config.searcher.max_trials) == (16, "epochs", 4)
    assert config.min_validation_period == Length(0, "batches")
    assert isinstance(config.checkpoint_storage, LocalStorage)
    assert config.checkpoint_storage.save_trial_best == 1
    assert load_experiment({**MINIMAL, "hang_timeout": 0}).config.hang_timeout is None


def test_environment_variables_by_device() -> None:
    by_device = {"environment": {"environment_variables": {"cpu": ["A=1"], "cuda": ["A=2", "B"]}, "image": "one"}}
    environment = load_experiment({**MINIMAL, **by_device}).config.environment
    assert (environment.variables("cpu"), environment.variables("cuda"), environment.variables("rocm")) == (
        ("A=1",),
        ("A=2", "B"),
        (),
    )
    plain = load_experiment(with_value("environment.environment_variables", ["A=1"])).config.environment
    assert plain.variables("cpu") == plain.variables("rocm") == ("A=1",)
    assert environment.plain()["image"] == {"cpu": "one", "cuda": "one", "rocm": "one"}


def test_log_policies_join_the_built_in_ones() -> None:
    config = load_experiment(MINIMAL).config
    assert [(policy.name, policy.action) for policy in config.log_policies] == [
        ("CUDA OOM", "cancel_retries"),
        ("ECC Error", None),
    ]
    own = [{"name": "CUDA OOM"}, {"name": "mine", "pattern": "x.*y", "action": "cancel_retries"}]
    policies = {policy.name: policy for policy in load_experiment({**MINIMAL, "log_policies": own}).config.log_policies}
    assert policies["CUDA OOM"].pattern is None
    assert policies["mine"].action == "cancel_retries"
    assert set(policies) == {"CUDA OOM", "ECC Error", "mine"}


def test_integers_may_be_written_with_an_exponent() -> None:
    text = "entrypoint: a:B\nsearcher: {name: random, metric: x, max_trials: 1e3}\nscheduling_unit: 1.0\n"
    config = load_experiment(text).config
    assert isinstance(config.searcher, RandomSearch)
    assert config.searcher.name == "random"
    assert (config.searcher.max_trials, config.scheduling_unit) == (1000, 1)


SPACE = """
entrypoint: model_def:MyTrial
searcher: {name: random, metric: x, max_trials: 3}
hyperparameters:
  implicit: 1e-4
  words: relu
  list: [1, 2]
  nothing: null
  const: {type: const, val: null}
  map: {type: const, val: {a: 1}}
  int: {type: int, minval: -2, maxval: 8, count: 3}
  double: {type: double, minval: 0.2, maxval: 0.8, count: null}
  log: {type: log, base: 10, minval: -4, maxval: 0}
  loguniform: {type: loguniform, min: 1e-4, max: 1}
  categorical: {type: categorical, vals: [relu, null, [1], {a: b}]}
  optimizer:
    inner: {lr: {type: double, minval: 0, maxval: 1}}
  empty: {}
"""


def test_every_kind_of_hyperparameter() -> None:
    loaded = load_experiment(SPACE)
    space = loaded.config.hyperparameters
    assert space["implicit"] == 1e-4
    assert (space["nothing"], space["const"], space["empty"]) == (None, {"type": "const", "val": None}, {})
    assert space["int"] == {"type": "int", "minval": -2, "maxval": 8, "count": 3}
    assert space["double"] == {"type": "double", "minval": 0.2, "maxval": 0.8}
    assert space["categorical"]["vals"] == ["relu", None, [1], {"a": "b"}]
    assert space["optimizer"]["inner"]["lr"]["type"] == "double"
    assert load_experiment(loaded.config.plain()).config.hyperparameters == space
    assert loaded.warnings == []


def test_doubts() -> None:
    text = "entrypoint: a:B\nsearcher: {name: single, metric: x}\nhyperparameters:\n"
    text += "  lr: {type: log, base: 10, minval: 1e-4, maxval: 1.0}\n"
    log, once = load_experiment(text).warnings
    assert "hyperparameters.lr" in log
    assert "exponents" in log
    assert "between 1.00023 and 10" in log
    assert "{type: loguniform, min: 0.0001, max: 1}" in log
    assert "drawn once" in once
    both = searcher("single", source_trial_id=1, source_checkpoint_uuid="x")
    assert "source_checkpoint_uuid is not used" in load_experiment(both).warnings[0]


def test_fields_of_a_cluster_are_named_in_one_warning() -> None:
    config = {
        **MINIMAL,
        "resources": {"priority": 5, "resource_pool": "gpu", "slots_per_trial": 2, "slots": 4},
        "environment": {"image": "x/y:z", "registry_auth": {"password": "s3cr3t"}, "environment_variables": ["A=1"]},
        "optimizations": {"mixed_precision": "O1"},
        "bind_mounts": [{"host_path": "/data", "container_path": "/mnt"}],
        "slurm": {"gpu_type": "x"},
        "log_policies": [{"name": "a", "pattern": "b", "action": "exclude_node"}],
    }
    (warning,) = load_experiment(config).warnings
    for word in (
        "resources.resource_pool",
        "resources.slots (it belongs to commands; the processes of a trial are slots_per_trial)",
        "environment.image",
        "environment.registry_auth",
        "optimizations.mixed_precision (use torch.amp",
        "bind_mounts (programs see /data and not /mnt)",
        "slurm",
        "log_policies.0.action",
    ):
        assert word in warning
    assert "resources.slots_per_trial" not in warning
    assert "priority" not in warning, "it counts in the queue"
    assert "environment_variables" not in warning
    assert "s3cr3t" not in warning


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*/*.yaml")), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_files_of_the_examples_load_without_a_message(file: Path) -> None:
    loaded = load_experiment(file)
    assert (loaded.notes, loaded.warnings) == ([], [])
    assert loaded.original == file.read_text()
    assert loaded.shown_original == loaded.original
