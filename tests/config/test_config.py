"""YAML, hyperparameter spaces, lengths and the masking of secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from determined.config.hyperparameters import sample_hyperparameters
from determined.config.length import Length, parse_length
from determined.config.random_stream import RandomStream
from determined.config.reading.load import load_yaml
from determined.config.secrets.masking import MASK, mask_arguments, mask_secrets
from determined.errors import InvalidConfigurationException


def test_yaml_by_the_rules_of_version_1_2() -> None:
    assert load_yaml("lr: 1e-4\nflag: on\nlist: [1, 2]\n") == {"lr": 1e-4, "flag": "on", "list": [1, 2]}
    assert load_yaml("") == {}


def test_yaml_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "const.yaml"
    file.write_text("name: x\n")
    assert load_yaml(file) == load_yaml(str(file)) == {"name": "x"}


def test_anchors_within_bounds_are_fine() -> None:
    assert load_yaml("a: &x {b: 1}\nc: *x\n") == {"a": {"b": 1}, "c": {"b": 1}}


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", "^configuration:3: "),
        ("a: 1\nb: !!python/object:os.system x\n", "^configuration:2: .*tag"),
        ("a: !custom 1\n", "tag"),
        ("a: [1\n", "^configuration:2: "),
        ("- 1\n", "expected a map"),
        ("just words\n", "expected a map"),
        ("a: " + "[" * 100 + "]" * 100, "deeper"),
        (BOMB, "values|aliases"),
        ("a: &a [*a]\n", "values|alias"),
        ("a: " + "x" * 1_100_000, "larger"),
        ("\x00", "^configuration: "),
    ],
)
def test_bad_yaml_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(InvalidConfigurationException, match=words):
        load_yaml(text)


def test_the_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("a: 1\na: 2\n")
    with pytest.raises(InvalidConfigurationException, match=r"bad\.yaml:2: "):
        load_yaml(file)
    file.write_bytes(b"a: \xff\xfe")
    with pytest.raises(InvalidConfigurationException, match=r"bad\.yaml.*UTF-8"):
        load_yaml(file)


def test_sampling() -> None:
    space = {
        "plain": [1, 2],
        "const": {"type": "const", "val": {"deep": 1}},
        "units": {"type": "int", "minval": 2, "maxval": 4},
        "drop": {"type": "double", "minval": 0.0, "maxval": 0.5},
        "lr": {"type": "log", "base": 10, "minval": -3, "maxval": -1},
        "act": {"type": "categorical", "vals": ["relu", None]},
        "nested": {"inner": {"type": "int", "minval": 0, "maxval": 1}},
    }
    seen: dict[str, set[Any]] = {"units": set(), "act": set()}
    for seed in range(100):
        drawn = sample_hyperparameters(space, RandomStream(seed))
        assert drawn == sample_hyperparameters(space, RandomStream(seed))
        assert (drawn["plain"], drawn["const"]) == ([1, 2], {"deep": 1})
        assert 0 <= drawn["drop"] <= 0.5
        assert 1e-3 <= drawn["lr"] <= 1e-1
        assert drawn["nested"]["inner"] in (0, 1)
        seen["units"].add(drawn["units"])
        seen["act"].add(drawn["act"])
    assert seen == {"units": {2, 3, 4}, "act": {"relu", None}}


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"a": {"type": "int", "minval": 1}}, "a.*maxval"),
        ({"a": {"type": "int", "minval": 1.5, "maxval": 3}}, "a.minval.*1.5"),
        ({"a": {"type": "int", "minval": 3, "maxval": 3}}, "below"),
        ({"a": {"type": "log", "minval": 1, "maxval": 3}}, "base"),
        ({"a": {"type": "log", "base": 0, "minval": 1, "maxval": 3}}, "base"),
        ({"a": {"type": "categorical", "vals": []}}, "vals"),
        ({"a": {"b": {"type": "uniform"}}}, r"a\.b\.type.*'uniform'"),
        ({"a": {"type": "double", "minval": "0", "maxval": 1}}, "minval"),
    ],
)
def test_bad_spaces_are_refused_by_name(space: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidConfigurationException, match=words):
        sample_hyperparameters(space, RandomStream(0))


def test_lengths() -> None:
    assert parse_length({"batches": 5}) == Length(5, "batches")
    assert parse_length({"epochs": 0}) == Length(0, "epochs")
    assert parse_length(7) == Length(7)
    for bad in ({"batches": 1, "epochs": 1}, {"batches": -1}, {"steps": 1}, {}, True, 1.5, "3", None, {"epochs": True}):
        with pytest.raises(InvalidConfigurationException, match="max_length"):
            parse_length(bad, "searcher.max_length")


def test_secrets_are_masked_and_the_rest_is_kept() -> None:
    config = {
        "checkpoint_storage": {"type": "s3", "bucket": "b", "access_key": "AKIA", "secret_key": "s3cr3t"},
        "data": {"secrets": {"anything": "s3cr3t"}, "url": "postgres://me:s3cr3t@host/db"},
        "environment": {"environment_variables": ["WANDB_API_KEY=s3cr3t", "PATH=/bin"]},
        "hyperparameters": {"num_key": 3, "tokens": "words", "lr": 0.1},
        "password": "s3cr3t",
    }
    masked = mask_secrets(config)
    assert "s3cr3t" not in repr(masked)
    assert "AKIA" not in repr(masked)
    assert masked["checkpoint_storage"]["bucket"] == "b"
    assert masked["environment"]["environment_variables"] == [f"WANDB_API_KEY={MASK}", "PATH=/bin"]
    assert masked["hyperparameters"] == config["hyperparameters"]
    assert masked["data"]["url"] == f"postgres://me:{MASK}@host/db"


def test_command_lines_are_masked() -> None:
    assert mask_arguments(["train.py", "--api-token", "s3cr3t", "--lr", "1", "--password=s3cr3t"]) == [
        "train.py",
        "--api-token",
        MASK,
        "--lr",
        "1",
        f"--password={MASK}",
    ]
