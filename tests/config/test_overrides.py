"""The option `--config key=value`, as users type it."""

from __future__ import annotations

from typing import Any

import pytest

from determined.config.derive import derive
from determined.config.experiment import load_experiment
from determined.config.reading.overrides import apply_overrides
from determined.errors import InvalidExperimentConfig

FILE = {
    "entrypoint": "a:B",
    "name": "x",
    "resources": None,
    "searcher": {"name": "random", "metric": "loss", "max_trials": 4},
    "hyperparameters": {"lr": 0.1, "units": {"type": "int", "minval": 1, "maxval": 4}},
}


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("name=plain", "name", "plain"),
        ("name=a,b", "name", "a,b"),
        ("name=a: b", "name", "a: b"),
        ("name=*star", "name", "*star"),
        ("name= spaces ", "name", "spaces"),
        ("name='7'", "name", "7"),
        ("name=x=y", "name", "x=y"),
        ("name=", "name", None),
        ("name=null", "name", None),
        ("resources.slots_per_trial=4", "resources.slots_per_trial", 4),
        ("hyperparameters.lr=1e-3", "hyperparameters.lr", 0.001),
        ("debug=true", "debug", True),
        ("debug=yes", "debug", "yes"),
        ("labels=a,b", "labels", ["a", "b"]),
        ("labels=a", "labels", ["a"]),
        ("labels=[a, 'b,c']", "labels", ["a", "b,c"]),
        ("searcher.bracket_rungs=3,2", "searcher.bracket_rungs", [3, 2]),
        ("environment.environment_variables=A=1,B=2", "environment.environment_variables", ["A=1", "B=2"]),
        ("hyperparameters.act.vals=relu,2,null", "hyperparameters.act.vals", ["relu", 2, None]),
        (
            "bind_mounts={host_path: /a, container_path: /b}",
            "bind_mounts",
            [{"host_path": "/a", "container_path": "/b"}],
        ),
        ("searcher.max_length={epochs: 3}", "searcher.max_length", {"epochs": 3}),
        ('data={"a": [1, 2]}', "data", {"a": [1, 2]}),
        ("entrypoint=python3 train.py --list 1,2", "entrypoint", "python3 train.py --list 1,2"),
        ("entrypoint=[python3, train.py]", "entrypoint", ["python3", "train.py"]),
    ],
)
def test_an_override(override: str, path: str, value: Any) -> None:
    config, paths = apply_overrides(FILE, [override])
    assert paths == [path]
    inner: Any = config
    for name in path.split("."):
        inner = inner[name]
    assert inner == value
    assert FILE["name"] == "x"


def test_maps_are_merged_and_later_ones_win() -> None:
    config, _ = apply_overrides(
        FILE, ["searcher={max_trials: 9, max_concurrent_trials: 2}", "searcher.max_trials=3", "hyperparameters.units=5"]
    )
    assert config["searcher"] == {"name": "random", "metric": "loss", "max_trials": 3, "max_concurrent_trials": 2}
    assert config["hyperparameters"] == {"lr": 0.1, "units": 5}


def test_overrides_are_part_of_what_is_kept() -> None:
    text = "# a comment\nentrypoint: a:B\nsearcher: {name: single, metric: x}\n"
    assert load_experiment(text).original == text
    loaded = load_experiment(text, overrides=["labels=a,b", "searcher.max_length={epochs: 2}"])
    assert loaded.config.labels == ("a", "b")
    assert load_experiment(loaded.original).config == loaded.config


@pytest.mark.parametrize(
    ("overrides", "path", "words"),
    [
        (["searcher.max_trials"], "searcher.max_trials", "name=value"),
        (["=3"], "", "name=value"),
        (["a..b=3"], "a..b", "name=value"),
        (["name.x=3"], "name.x", "name is not a map"),
        (["data={a: 1"], "data", "--config"),
        (["data={a: 1, a: 2}"], "data", "duplicate"),
        (["data=[" + "[" * 80 + "]" * 81], "data", "deeper"),
        (["searcher.max_trails=3"], "searcher.max_trails", "did you mean max_trials?"),
        (["max_restarts=many"], "max_restarts", "whole number"),
        (["hyperparameters.lr=.inf"], "hyperparameters.lr", "finite"),
        ([f"data={'x' * 1_100_000}"], "data", "map"),
    ],
)
def test_a_bad_override_is_named(overrides: list[str], path: str, words: str) -> None:
    with pytest.raises(InvalidExperimentConfig) as caught:
        load_experiment(FILE, overrides=overrides)
    (mistake,) = caught.value.mistakes
    assert mistake.path == path
    assert words in str(mistake)


def test_all_bad_overrides_at_once_and_no_secrets() -> None:
    with pytest.raises(InvalidExperimentConfig) as caught:
        load_experiment(FILE, overrides=["a", ".=s3cr3t", "name.token=s3cr3t"])
    assert len(caught.value.mistakes) == 3
    assert "s3cr3t" not in str(caught.value)


def test_mistakes_of_the_file_and_of_overrides_together() -> None:
    with pytest.raises(InvalidExperimentConfig) as caught:
        load_experiment({**FILE, "data": {"x": float("inf")}}, overrides=["max_restarts=-1"])
    assert [mistake.path for mistake in caught.value.mistakes] == ["data.x", "max_restarts"]


SINGLE = {"name": "single", "metric": "loss"}
ASHA = {"name": "adaptive_asha", "metric": "loss", "max_trials": 4}


@pytest.mark.parametrize(
    ("searcher", "override", "expected"),
    [
        ({**SINGLE, "max_steps": 9}, "max_length={batches: 5}", {"max_length": {"batches": 5}}),
        ({**SINGLE, "max_steps": 9}, "max_length.epochs=5", {"max_length": {"epochs": 5}}),
        ({**SINGLE, "max_steps": 9}, "max_length=5", {"max_length": 5}),
        ({**SINGLE, "max_steps": 9}, "max_length=null", {"max_length": {"batches": 900}}),
        ({**SINGLE, "max_length": {"epochs": 2}}, "max_length={batches: 5}", {"max_length": {"batches": 5}}),
        ({**SINGLE, "max_length": {"epochs": 2}}, "max_length.batches=5", {"max_length": {"batches": 5}}),
        ({**SINGLE, "max_length": {"epochs": 2}}, "max_steps=3", {"max_length": {"batches": 300}}),
        ({**ASHA, "target_trial_steps": 9}, "max_length={epochs: 3}", {"max_time": 3, "time_metric": "epochs"}),
        (
            {**ASHA, "max_time": 9, "time_metric": "batches"},
            "max_length={epochs: 3}",
            {"max_time": 3, "time_metric": "epochs"},
        ),
        (
            {**SINGLE, "source_trial_id": 3},
            "source_checkpoint_uuid=abc",
            {"source_checkpoint_uuid": "abc", "source_trial_id": None},
        ),
    ],
)
def test_an_override_replaces_the_other_names_of_the_same_field(
    searcher: dict[str, Any], override: str, expected: dict[str, Any]
) -> None:
    file = {"entrypoint": "a:B", "searcher": searcher}
    created = load_experiment(file, overrides=[f"searcher.{override}"]).config.plain()["searcher"]
    assert {name: created.get(name) for name in expected} == expected
    # A fork merges the same changes into a configuration that was migrated when it was created.
    before = load_experiment(file).config.plain()
    forked = load_experiment(derive(before, apply_overrides({}, [f"searcher.{override}"])[0])).config.plain()
    assert {name: forked["searcher"].get(name) for name in expected} == expected or override == "max_length=null"


def test_two_names_of_one_field_on_the_command_line_contradict_each_other() -> None:
    with pytest.raises(InvalidExperimentConfig, match="says the same as"):
        load_experiment(FILE, overrides=["searcher.max_steps=3", "searcher.max_length={epochs: 2}"])


def test_the_old_name_of_a_device_yields_to_an_override() -> None:
    file = {**FILE, "environment": {"image": {"gpu": "old", "cpu": "same"}}}
    image = load_experiment(file, overrides=["environment.image.cuda=new"]).config.plain()["environment"]["image"]
    assert image == {"cuda": "new", "cpu": "same"}


def test_a_hyperparameter_that_looks_like_a_length_is_merged() -> None:
    file = {**FILE, "hyperparameters": {"plan": {"epochs": 2}}}
    plan = load_experiment(file, overrides=["hyperparameters.plan.batches=5"]).config.plain()["hyperparameters"]["plan"]
    assert plan == {"epochs": 2, "batches": 5}
