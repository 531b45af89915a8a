"""Each mistake in a configuration is reported with its path, all of them at once, with a suggestion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from determined.config.experiment import load_experiment
from determined.errors import InvalidConfigurationException, InvalidExperimentConfig
from tests.config.test_experiment_fields import (
    ADAPTIVE,
    AZURE,
    GCS,
    GRID,
    HALVING,
    MINIMAL,
    OPTUNA,
    PBT,
    RANDOM,
    S3,
    SHARED_FS,
    searcher,
    storage,
    with_value,
)


def mistakes_in(source: Any, **options: Any) -> InvalidExperimentConfig:
    with pytest.raises(InvalidExperimentConfig) as caught:
        load_experiment(source, **options)
    assert str(caught.value)
    return caught.value


# base, path that is set, its value, path of the mistake (None: the same), a characteristic part of the line
BAD: list[tuple[dict[str, Any], str, Any, str | None, str]] = [
    (MINIMAL, "name", 7, None, "expected a text, got 7; put it in quotes"),
    (MINIMAL, "name", ["a"], None, "expected a text"),
    (MINIMAL, "description", {"a": 1}, None, "expected a text"),
    (MINIMAL, "labels", "a", None, "expected a list, got 'a'"),
    (MINIMAL, "labels", ["a", 3], "labels.1", "put it in quotes"),
    (MINIMAL, "labels", {"a": "yes"}, None, "expected a list"),
    (MINIMAL, "data", [1], None, "expected a map, got [1]"),
    (MINIMAL, "data", {"x": float("nan")}, "data.x", "finite"),
    (MINIMAL, "data", {"x": object()}, "data.x", "plain data"),
    (MINIMAL, "data", {"x": "\udc80"}, "data.x", "no text"),
    (MINIMAL, "workspace", "w", "project", "workspace is given"),
    (MINIMAL, "project", "p", "workspace", "project is given"),
    (MINIMAL, "entrypoint", "", None, "module:TrialClass"),
    (MINIMAL, "entrypoint", None, None, "missing: what is run"),
    (MINIMAL, "entrypoint", [], None, "a command"),
    (MINIMAL, "entrypoint", ["python3", 3], None, "a list of texts"),
    (MINIMAL, "entrypoint", {"a": 1}, None, "a command"),
    (MINIMAL, "entrypoint", "MNistTrial", None, "for example model_def:MNistTrial"),
    (MINIMAL, "entrypoint", "model.MNistTrial", None, "for example model:MNistTrial"),
    (MINIMAL, "entrypoint", "train.py --epochs 2", None, "for example python3 train.py"),
    (MINIMAL, "hyperparameters", [1], None, "expected a map"),
    (MINIMAL, "hyperparameters.a", {"type": "int", "minval": 1}, "hyperparameters.a.maxval", "missing"),
    (MINIMAL, "hyperparameters.a", {"type": "int", "minval": 1.5, "maxval": 3}, "hyperparameters.a.minval", "whole"),
    (
        MINIMAL,
        "hyperparameters.a",
        {"type": "int", "minval": 3, "maxval": 3},
        "hyperparameters.a.minval",
        "below maxval",
    ),
    (MINIMAL, "hyperparameters.a", {"type": "double", "minval": 2, "maxval": 1}, "hyperparameters.a.minval", "below"),
    (MINIMAL, "hyperparameters.a", {"type": "double", "minval": "0", "maxval": 1}, "hyperparameters.a.minval", "'0'"),
    (MINIMAL, "hyperparameters.a", {"type": "log", "minval": 1, "maxval": 3}, "hyperparameters.a.base", "missing"),
    (
        MINIMAL,
        "hyperparameters.a",
        {"type": "log", "base": 0, "minval": 1, "maxval": 3},
        "hyperparameters.a.base",
        "above 0",
    ),
    (
        MINIMAL,
        "hyperparameters.a",
        {"type": "log", "base": 10, "minval": 1, "maxval": 400},
        "hyperparameters.a.maxval",
        "too large",
    ),
    (
        MINIMAL,
        "hyperparameters.a",
        {"type": "double", "minval": -1e308, "maxval": 1e308},
        "hyperparameters.a.maxval",
        "too wide",
    ),
    (MINIMAL, "hyperparameters.a", {"type": "loguniform", "min": 0, "max": 1}, "hyperparameters.a.min", "above 0"),
    (MINIMAL, "hyperparameters.a", {"type": "loguniform", "min": 2, "max": 1}, "hyperparameters.a.min", "below max"),
    (MINIMAL, "hyperparameters.a", {"type": "categorical", "vals": []}, "hyperparameters.a.vals", "at least one"),
    (MINIMAL, "hyperparameters.a", {"type": "categorical", "vals": "ab"}, "hyperparameters.a.vals", "a list"),
    (MINIMAL, "hyperparameters.a", {"type": "categorical"}, "hyperparameters.a.vals", "missing"),
    (MINIMAL, "hyperparameters.a", {"type": "const"}, "hyperparameters.a.val", "missing"),
    (
        MINIMAL,
        "hyperparameters.a",
        {"type": "const", "val": 1, "vals": 2},
        "hyperparameters.a.vals",
        "did you mean val?",
    ),
    (MINIMAL, "hyperparameters.a.b", {"type": "doubel"}, "hyperparameters.a.b.type", "did you mean double?"),
    (MINIMAL, "hyperparameters.a", {"type": "resnet", "x": 1}, "hyperparameters.a.type", "cannot have one"),
    (MINIMAL, "hyperparameters.a", {"type": 3}, "hyperparameters.a.type", "got 3"),
    (
        MINIMAL,
        "hyperparameters.a",
        {"type": "int", "minval": 1, "maxval": 3, "count": 0},
        "hyperparameters.a.count",
        "from 1 on, got 0",
    ),
    (GRID, "hyperparameters.a", {"type": "int", "minval": 1, "maxval": 3}, "hyperparameters.a.count", "a grid needs"),
    (
        GRID,
        "hyperparameters.a.b.c",
        {"type": "log", "base": 10, "minval": 1, "maxval": 3},
        "hyperparameters.a.b.c.count",
        "a grid needs",
    ),
    (MINIMAL, "searcher", None, None, "missing: a map such as"),
    (MINIMAL, "searcher", "single", None, "expected a map, got 'single'"),
    (MINIMAL, "searcher", {"metric": "x"}, "searcher.name", "missing: one of single, random"),
    (MINIMAL, "searcher", {"name": "single"}, "searcher.metric", "missing: the validation metric"),
    (MINIMAL, "searcher.name", "adaptive_ahsa", None, "did you mean adaptive_asha?"),
    (MINIMAL, "searcher.name", 3, None, "got 3"),
    (MINIMAL, "searcher.name", "custom", None, "optuna takes any"),
    (MINIMAL, "searcher.metric", "", None, "not empty"),
    (MINIMAL, "searcher.smaller_is_better", "yes", None, "true or false, got 'yes'; YAML 1.2"),
    (MINIMAL, "searcher.max_length", {"steps": 3}, None, "such as {batches: 100}"),
    (MINIMAL, "searcher.max_length", {"batches": 0}, None, "from 1 on"),
    (MINIMAL, "searcher.max_length", {"batches": 1, "epochs": 1}, None, "such as"),
    (MINIMAL, "searcher.source_trial_id", "a", None, "whole number"),
    (MINIMAL, "searcher.max_trials", 3, None, "it belongs to random, async_halving, adaptive_asha, optuna"),
    (RANDOM, "searcher.max_trials", 0, None, "expected a whole number from 1 on, got 0"),
    (RANDOM, "searcher.max_trials", None, None, "missing: how many trials"),
    (RANDOM, "searcher.max_trials", True, None, "whole number"),
    (RANDOM, "searcher.max_trials", 2.5, None, "whole number from 1 on, got 2.5"),
    (RANDOM, "searcher.max_trails", 5, None, "did you mean max_trials?"),
    (RANDOM, "searcher.max_concurrent_trials", -1, None, "from 0 on"),
    (HALVING, "searcher.num_rungs", None, None, "missing"),
    (HALVING, "searcher.divisor", 1, None, "above 1"),
    (HALVING, "searcher.max_time", None, None, "or max_length"),
    (HALVING, "searcher.time_metric", None, None, "counts training"),
    (ADAPTIVE, "searcher.mode", "agressive", None, "did you mean aggressive?"),
    (ADAPTIVE, "searcher.max_rungs", 0, None, "from 1 on"),
    (ADAPTIVE, "searcher.bracket_rungs", [2, 0], "searcher.bracket_rungs.1", "from 1 on"),
    (ADAPTIVE, "searcher.max_time", 0, None, "from 1 on"),
    (PBT, "searcher.replace_function.truncate_fraction", 0.6, None, "from 0 to 0.5"),
    (PBT, "searcher.explore_function.perturb_factor", 2, None, "from 0 to 1"),
    (PBT, "searcher.length_per_round", {"batches": 0}, None, "from 1 on"),
    (OPTUNA, "searcher.max_time", 5, "searcher.time_metric", "max_time is given"),
    (OPTUNA, "searcher.num_rungs", 5, None, "no rungs without"),
    (OPTUNA, "searcher.sampler_options", [1], None, "expected a map"),
    (MINIMAL, "resources", 3, None, "expected a map, got 3"),
    (MINIMAL, "resources.slots", -3, None, "from 0 on"),
    (MINIMAL, "resources.slots_per_trial", -1, None, "from 0 on"),
    (
        MINIMAL,
        "resources",
        {"slots_per_trial": 4, "max_slots": 2},
        "resources.max_slots",
        "slots_per_trial, which is 4",
    ),
    (MINIMAL, "resources.priority", 100, None, "from 1 to 99"),
    (MINIMAL, "resources.node_timeout", 4, None, "from 5 on"),
    (MINIMAL, "resources.shm_size", "many", None, "such as 1.5G"),
    (MINIMAL, "resources.shm_size", "1 gi", None, "write 1 GiB"),
    (MINIMAL, "resources.shm_size", "1.5Mi", None, "write 1.5 MiB"),
    *(
        (
            MINIMAL,
            "environment.pod_spec",
            {"spec": {"containers": [{"name": "sidecar"}, {"name": "determined-container", field: value}]}},
            f"environment.pod_spec.spec.containers.1.{field}",
            advice,
        )
        for field, value, advice in [
            ("image", "mine:1", "set environment.image instead"),
            ("env", [{"name": "A", "value": "1"}], "set environment.environment_variables instead"),
            ("command", ["sh"], "set entrypoint instead"),
            ("livenessProbe", {"exec": {}}, "leave it out"),
        ]
    ),
    (MINIMAL, "resources.devices", ["nonsense"], "resources.devices.0", "a device such as"),
    (MINIMAL, "slots_per_trial", 2, None, "did you mean resources.slots_per_trial?"),
    (MINIMAL, "max_restart", 2, None, "did you mean max_restarts?"),
    (MINIMAL, "experiment_seed", 2, None, "did you mean reproducibility.experiment_seed?"),
    (MINIMAL, "hyperparamters", {}, None, "did you mean hyperparameters?"),
    (MINIMAL, "hparams", {}, None, "did you mean hyperparameters?"),
    (MINIMAL, "env", {}, None, "did you mean environment?"),
    (MINIMAL, "Name", "x", None, "did you mean name?"),
    (MINIMAL, "metric", "x", None, "did you mean searcher.metric?"),
    (MINIMAL, "access_key", "s3cr3t", None, "did you mean checkpoint_storage.access_key?"),
    (searcher("adaptive_asha", max_trials=2), "searcher.max_length", {"epoch": 3}, None, "{epochs: 2}"),
    (searcher("adaptive_asha", max_trials=2), "searcher.max_length", {"epochs": 0}, None, "from 1 on"),
    (searcher("optuna", max_trials=2), "searcher.max_length", "long", None, "a length from 1 on"),
    (MINIMAL, "checkpoint_storage", "s3", None, "expected a map"),
    (MINIMAL, "checkpoint_storage", {"bucket": "b"}, "checkpoint_storage.type", "missing: one of shared_fs, directory"),
    (MINIMAL, "checkpoint_storage.type", "s4", None, "did you mean s3?"),
    (MINIMAL, "checkpoint_storage.type", "local", None, "one of shared_fs"),
    (MINIMAL, "checkpoint_storage", {"type": "hdfs", "hdfs_url": "x"}, "checkpoint_storage.type", "mount it"),
    (MINIMAL, "checkpoint_storage.save_trial_best", -1, None, "from 0 on"),
    (
        SHARED_FS,
        "checkpoint_storage.host_path",
        "data/x",
        None,
        f"absolute path, got 'data/x'; write {Path.cwd()}/data/x",
    ),
    (SHARED_FS, "checkpoint_storage.host_path", "~/x", None, "write HOME/x"),
    (SHARED_FS, "checkpoint_storage.host_path", "", None, "as /data/checkpoints"),
    (S3, "checkpoint_storage.endpoint_url", "minio:9000", None, "write https://minio:9000 or http://minio:9000"),
    (S3, "checkpoint_storage.endpoint_url", "ftp://minio", None, "a URL such as https://host:9000"),
    (S3, "checkpoint_storage.endpoint_url", "http://me:s3cr3t@minio", None, "without user"),
    (S3, "checkpoint_storage.endpoint_url", "http://minio/?sig=s3cr3t", None, "or query"),
    (S3, "checkpoint_storage.endpoint_url", "http://min io", None, "a URL such as"),
    (S3, "checkpoint_storage.endpoint_url", "http://[1", None, "a URL such as"),
    (S3, "checkpoint_storage.endpoint_url", 9000, None, "a URL such as"),
    (AZURE, "checkpoint_storage.account_url", "mine", None, "https://account.blob.core.windows.net"),
    (AZURE, "checkpoint_storage.credential", "s3cr3t!", None, "base64"),
    *(
        (
            storage("azure", container="c", connection_string=None),
            "checkpoint_storage.connection_string",
            text,
            None,
            words,
        )
        for text, words in [
            ("s3cr3t", "AccountName, and AccountKey"),
            ("AccountName=a", "AccountKey or SharedAccessSignature"),
            ("AccountName=a;AccountKey=s3cr3t!", "base64"),
            ("AccountName=a;AccountKey=czNjcjN0;BlobEndpoint=nowhere", "BlobEndpoint"),
            ("AccountName=a;AccountKey=czNjcjN0;EndpointSuffix=a b", "EndpointSuffix"),
            (7, "a connection string with"),
        ]
    ),
    (SHARED_FS, "checkpoint_storage.host_path", None, None, "missing"),
    (SHARED_FS, "checkpoint_storage.storage_path", "../out", None, "below host_path '/data'"),
    (SHARED_FS, "checkpoint_storage.storage_path", "/database", None, "below host_path"),
    (S3, "checkpoint_storage.bucket", None, None, "missing"),
    (S3, "checkpoint_storage.prefix", "a/../b", None, "without '..'"),
    (S3, "checkpoint_storage.access_key", "AKIA", "checkpoint_storage.secret_key", "access_key is given"),
    (S3, "checkpoint_storage.host_path", "/x", None, "it belongs to shared_fs"),
    (GCS, "checkpoint_storage.prefix", "..", None, "without '..'"),
    (AZURE, "checkpoint_storage.connection_string", "AccountName=a;AccountKey=czNjcjN0", None, "only one of"),
    (AZURE, "checkpoint_storage.account_url", None, "checkpoint_storage.connection_string", "missing: one of"),
    (
        storage("azure", container="c", connection_string="AccountName=a;AccountKey=Zm9v"),
        "checkpoint_storage.credential",
        "czNjcjN0",
        None,
        "account_url only",
    ),
    (MINIMAL, "checkpoint_policy", "worst", None, "one of best, all, none"),
    (MINIMAL, "min_validation_period", "1 epoch", None, "such as {batches: 100}"),
    (MINIMAL, "min_checkpoint_period", {"epochs": -1}, None, "from 0 on"),
    (MINIMAL, "perform_initial_validation", 1, None, "true or false, got 1"),
    (MINIMAL, "scheduling_unit", 0, None, "from 1 on"),
    (MINIMAL, "max_restarts", -1, None, "from 0 on"),
    (MINIMAL, "max_restarts", 10**30, None, "whole number"),
    (MINIMAL, "preemption_timeout", "1h", None, "whole number"),
    (MINIMAL, "hang_timeout", -1, None, "null for no limit"),
    (MINIMAL, "max_trial_seconds", 0, None, "above 0"),
    (MINIMAL, "reproducibility.experiment_seed", 2**31, None, "from 0 to 2147483647"),
    (MINIMAL, "optimizations.aggregation_frequency", 0, None, "from 1 on"),
    (MINIMAL, "optimizations.mixed_precision", "o1", None, "one of O0, O1, O2, O3"),
    (MINIMAL, "profiling", {"begin_on_batch": 5, "end_after_batch": 4}, "profiling.end_after_batch", "which is 5"),
    (MINIMAL, "log_policies", [{"name": "a"}, {"name": "a"}], "log_policies.1.name", "earlier policy"),
    (MINIMAL, "log_policies", [{"name": "a", "pattern": "("}], "log_policies.0.pattern", "regular expression"),
    (MINIMAL, "log_policies", [{"name": "a", "action": "retry"}], "log_policies.0.action", "one of cancel_retries"),
    (MINIMAL, "log_policies", [{"action": "cancel_retries"}], "log_policies.0.name", "missing"),
    (MINIMAL, "log_policies", {"name": "a"}, None, "expected a list"),
    (MINIMAL, "retention_policy.log_retention_days", -2, None, "from -1 to 32767"),
    (MINIMAL, "environment.environment_variables", {"A": "1"}, "environment.environment_variables.A", "NAME=VALUE"),
    (MINIMAL, "environment.environment_variables", ["=x"], "environment.environment_variables.0", "NAME=VALUE"),
    (
        MINIMAL,
        "environment.image",
        {"accelerator": "x"},
        "environment.image.accelerator",
        "known here: cpu, cuda, rocm",
    ),
    (MINIMAL, "environment.ports", {"a": 0}, "environment.ports.a", "from 1 to 65535"),
    (MINIMAL, "bind_mounts", [{"host_path": "x", "container_path": "y"}], "bind_mounts.0.host_path", "absolute"),
    (MINIMAL, "bind_mounts", [{"host_path": "/x", "container_path": "."}], "bind_mounts.0.container_path", "not '.'"),
    (MINIMAL, "bind_mounts", [{"host_path": "/x"}], "bind_mounts.0.container_path", "missing"),
    (
        MINIMAL,
        "bind_mounts",
        [{"host_path": "/x", "container_path": "/y"}, {"host_path": "/z", "container_path": "/y"}],
        "bind_mounts.1.container_path",
        "earlier mount",
    ),
    (MINIMAL, "internal", {"native": 1}, None, "expected null"),
    (MINIMAL, "slurm.sbatch_args", "-x", None, "expected a list"),
    (MINIMAL, "batches_per_step", 0, None, "from 1 on"),
    (MINIMAL, "records_per_epoch", -1, None, "from 0 on"),
    (MINIMAL, "searcher.max_steps", "9", None, "steps from 1 on"),
    (searcher("single", max_length={"batches": 3}), "searcher.max_steps", 3, None, "keep that one"),
    (searcher("adaptive", max_length={"batches": 3}), "searcher.budget", {"batches": 3}, None, "more than max_length"),
    (searcher("adaptive", max_length={"batches": 3}), "searcher.budget", {"epochs": 3}, None, "unit of max_length"),
    (searcher("adaptive", max_length={"batches": 3}), "searcher.budget", None, None, "or max_trials instead"),
]


@pytest.mark.parametrize(
    ("base", "path", "value", "where", "words"), BAD, ids=[f"{number}-{bad[1]}" for number, bad in enumerate(BAD)]
)
def test_a_mistake_is_said_at_its_place(
    base: dict[str, Any], path: str, value: Any, where: str | None, words: str
) -> None:
    error = mistakes_in(with_value(path, value, base))
    found = [mistake for mistake in error.mistakes if mistake.path == (where or path)]
    assert len(found) == 1, error
    assert words.replace("HOME", str(Path.home())) in str(found[0])
    # The fields of an unknown type are checked against those of the type that was probably meant.
    others = [mistake for mistake in error.mistakes if not mistake.message.startswith("missing") or mistake in found]
    assert [mistake.path for mistake in others] == [where or path], "one cause, one mistake"
    assert "s3cr3t" not in str(error)
    assert "pydantic" not in str(error)


FILE = """\
# a search with many mistakes
name: 3
slots_per_trial: 2
searcher:
  name: adaptive_asha
  max_trails: 16
  max_trials: 0
  metric: loss
hyperparameters:
  group:
    lr: {type: log, base: 10, minval: 0, maxval: -3}
"""


def test_all_mistakes_at_once_in_the_order_of_the_lines(tmp_path: Path) -> None:
    file = tmp_path / "search.yaml"
    file.write_text(FILE)
    error = mistakes_in(file)
    assert isinstance(error, InvalidConfigurationException)
    assert [(mistake.line, mistake.path) for mistake in error.mistakes] == [
        (2, "name"),
        (3, "slots_per_trial"),
        (4, "searcher.max_time"),
        (4, "searcher.time_metric"),
        (6, "searcher.max_trails"),
        (7, "searcher.max_trials"),
        (11, "hyperparameters.group.lr.minval"),
        (None, "entrypoint"),
    ]
    lines = str(error).splitlines()
    assert len(lines) == len(error.mistakes)
    assert lines[4] == f"{file}:6: searcher.max_trails: unknown field; did you mean max_trials?"
    assert lines[5] == f"{file}:7: searcher.max_trials: expected a whole number from 1 on, got 0"


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("radnom", ["metric", "max_trials", "name", "metrc", "max_trial", "max_length"]),
        ("quantum", ["metric", "name", "metrc", "max_trial", "max_length"]),
        ("grid", ["metric", "metrc", "max_trial", "max_length"]),
        ("custom", ["name"]),
    ],
)
def test_an_unknown_searcher_hides_no_other_mistake(name: str, paths: list[str]) -> None:
    text = f"entrypoint: a:B\nsearcher:\n  name: {name}\n  metrc: x\n  max_trial: 4\n  max_length: 3 epochs\n"
    assert [mistake.path for mistake in mistakes_in(text).mistakes] == [f"searcher.{path}" for path in paths]


def test_settings_that_some_searcher_knows_are_no_mistakes_of_an_unknown_one() -> None:
    text = "entrypoint: a:B\nsearcher: {name: quantum, metric: x, max_trials: 2, num_rungs: 3, population_size: 2}\n"
    assert [mistake.path for mistake in mistakes_in(text).mistakes] == ["searcher.name"]


def test_an_unknown_storage_hides_no_other_mistake() -> None:
    text = "entrypoint: a:B\nsearcher: {name: single, metric: x}\ncheckpoint_storage: {type: s4, buket: b}\n"
    found = {mistake.path for mistake in mistakes_in(text).mistakes}
    assert found == {"checkpoint_storage.type", "checkpoint_storage.bucket", "checkpoint_storage.buket"}


def test_all_mistakes_of_one_hyperparameter() -> None:
    text = "entrypoint: a:B\nsearcher: {name: single, metric: x}\nhyperparameters:\n  hidden: {type: integer, min: 4}\n"
    error = mistakes_in(text)
    assert str(error).splitlines() == [
        "configuration:4: hyperparameters.hidden.type: expected one of const, int, double, log, loguniform, "
        "categorical, got 'integer'; did you mean int?",
        "configuration:4: hyperparameters.hidden.minval: missing",
        "configuration:4: hyperparameters.hidden.maxval: missing",
        "configuration:4: hyperparameters.hidden.min: unknown field; did you mean minval?",
    ]


def test_a_mistake_of_an_override_has_no_line_of_the_file() -> None:
    text = "entrypoint: a:B\nsearcher:\n  name: random\n  metric: x\n  max_trials: 3\n"
    (mistake,) = mistakes_in(text, overrides=["searcher.max_trials=0"]).mistakes
    assert (mistake.path, mistake.line) == ("searcher.max_trials", None)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("entrypoint: a:B\nname: x\nname: y\n", 3, "duplicate"),
        ("entrypoint: a:B\nsearcher:\n\tname: single\n", 3, r"'\t'"),
        ("entrypoint: !!python/object:os.system x\n", 1, "tag"),
        ("a: " + "[" * 100 + "]" * 100, 1, "deeper"),
        ("a: [1\n", None, ""),
        ("- 1\n", None, "expected a map"),
        ("just words", None, "expected a map"),
        ("a: " + "x" * 1_100_000, None, "larger"),
        ("a: &a [*a]\n", None, ""),
        ("? [1, 2]\n: 3\n", None, "a text as a name"),
    ],
)
def test_bad_yaml(text: str, line: int | None, words: str) -> None:
    error = mistakes_in(text)
    assert words in str(error)
    if line is not None:
        assert error.mistakes[0].line == line


def test_a_bomb_of_aliases() -> None:
    text = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert "values" in str(mistakes_in(text)) or "aliases" in str(mistakes_in(text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "No such file" in str(mistakes_in(tmp_path / "none.yaml"))
    assert "directory" in str(mistakes_in(tmp_path))
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff\n")
    assert "UTF-8" in str(mistakes_in(tmp_path / "latin.yaml"))


def test_sources_of_other_kinds() -> None:
    circle: dict[str, Any] = {**MINIMAL}
    circle["data"] = circle
    assert "deeper" in str(mistakes_in(circle))
    assert "expected a map" in str(mistakes_in([1]))
    assert mistakes_in({**MINIMAL, 1: 2, False: 3, ("a",): 4}).mistakes
    assert "given twice" in str(mistakes_in({**MINIMAL, "data": {1: 2, "1": 3}}))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("checkpoint_storage.access_key", ["s3cr3t"]),
        ("checkpoint_storage.secret_key", {"x": "s3cr3t"}),
        ("environment.registry_auth", "s3cr3t"),
        ("environment.registry_auth.username", ["s3cr3t"]),
        ("environment.environment_variables", ["A=1", {"MY_KEY": "s3cr3t"}]),
        ("environment.environment_variables", "MY_KEY=s3cr3t"),
        ("entrypoint", {"api_token": "s3cr3t"}),
        ("data", "postgres://me:s3cr3t@host"),
    ],
)
def test_secrets_are_not_shown(path: str, value: Any) -> None:
    base = {**MINIMAL, "checkpoint_storage": {"type": "s3", "bucket": "b", "access_key": "a", "secret_key": "b"}}
    assert "s3cr3t" not in str(mistakes_in(with_value(path, value, base)))


def test_the_fields_of_an_unknown_storage_type_are_not_called_unknown() -> None:
    """If the word is not similar to any type, its fields are not known; misspelled ones are reported."""
    storage = {"type": "zzz", "whatever": 1, "save_trial_lates": 1, "save_trial_best": -1}
    with pytest.raises(InvalidExperimentConfig) as raised:
        load_experiment({**MINIMAL, "checkpoint_storage": storage})
    assert [mistake.path for mistake in raised.value.mistakes] == [
        "checkpoint_storage.type",
        "checkpoint_storage.save_trial_best",
        "checkpoint_storage.save_trial_lates",
    ]
