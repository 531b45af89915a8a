"""The stored forms of a configuration: the text as written, without secrets, and the data with all defaults."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from determined.config.blocks.storage import storage_model
from determined.config.defaults import complete, three_words
from determined.config.dump import dump_yaml
from determined.config.experiment import load_experiment
from determined.config.reading.load import load_yaml, parse_yaml
from determined.config.secrets.masked_text import mask_yaml
from determined.config.secrets.masking import MASK
from tests.config.test_experiment_fields import MINIMAL, S3

FILE = """\
# the search of tuesday
# secret_key: OLDER-s3cr3t
entrypoint: a:B   # a trial
searcher: {name: single, metric: x}
checkpoint_storage:
  type: s3
  bucket: b   # in the cloud
  access_key: "s3cr3t-AKIA"
  secret_key: s3cr3t   # of the team
data:
  secrets: {any: s3cr3t, more: [s3cr3t]}
  api_token: |
    s3cr3t
    s3cr3t
  url: https://me:s3cr3t@host/x
  num_key: 3
environment:
  environment_variables: [WANDB_API_KEY=s3cr3t, PATH=/bin]
"""


def test_the_original_is_kept_as_written_and_shown_without_secrets(tmp_path: Path) -> None:
    file = tmp_path / "search.yaml"
    file.write_text(FILE)
    loaded = load_experiment(file)
    assert loaded.original == FILE
    shown = loaded.shown_original
    assert "s3cr3t" not in shown
    for kept in (
        "# the search of tuesday",
        "entrypoint: a:B   # a trial",
        "bucket: b   # in the cloud",
        "# of the team",
    ):
        assert kept in shown
    assert "num_key: 3" in shown
    assert "PATH=/bin" in shown
    assert parse_yaml("shown", shown)["data"]["url"] == f"https://me:{MASK}@host/x"


@pytest.mark.parametrize(
    "text",
    [
        "data: {secrets: {a: &x {b: s3cr3t}, c: *x}}\n",
        "password: &p s3cr3t\nother: {token: *p}\n",
        "text: 'a # key: not a comment'\ntoken: s3cr3t\n",
        "token: >-\n  s3cr3t\n  s3cr3t\nlast: 1\n",
        "secrets:\n  - s3cr3t\n",
        "{token: s3cr3t, list: [{password: s3cr3t}]}",
        'token: "s3cr3t"\r\nlast: 1\r\n',
        "\ufefftoken: s3cr3t\n",
        "? token\n: s3cr3t\n",
    ],
)
def test_secrets_in_every_style_of_yaml(text: str) -> None:
    shown = mask_yaml(text)
    assert "s3cr3t" not in shown
    assert parse_yaml("shown", shown).keys() == parse_yaml("given", text).keys()


def test_yaml_is_written_to_be_read() -> None:
    data = {
        "name": "x",
        "hyperparameters": {"lr": 1e-5, "text": "1e-5", "odd": "a\x85b\u2028c"},
        "labels": ["a", "b"],
        "empty": {"map": {}, "list": []},
    }
    text = dump_yaml(data)
    assert parse_yaml("x", text) == data
    assert text.startswith("name: x\nhyperparameters:\n  lr: 1e-05\n  text: '1e-5'\n")
    assert "labels:\n  - a\n  - b\n" in text
    shared = [1]
    assert "&" not in dump_yaml({"a": shared, "b": shared})


def test_dates_are_texts() -> None:
    assert load_yaml("day: 2020-01-01\n") == {"day": "2020-01-01"}
    assert load_experiment({**MINIMAL, "name": "2020-01-01"}).config.name == "2020-01-01"


def test_what_was_left_open_is_filled_in() -> None:
    config = load_experiment({**MINIMAL, "checkpoint_storage": {"save_trial_best": 3}}).config
    words = three_words(random.Random(1))
    done = complete(config, now=1_700_000_000.7, words=words, checkpoints="/data/here")
    assert done.name == f"Experiment ({words})"
    assert len(words.split("-")) == 3
    assert done.reproducibility.experiment_seed == 1_700_000_000
    expected = {"type": "directory", "container_path": "/data/here", "save_trial_best": 3}
    assert done.checkpoint_storage == storage_model("directory").model_validate(expected)
    assert load_experiment(done.plain()).config == done


def test_what_was_given_stays() -> None:
    config = load_experiment({**S3, "name": "mine", "reproducibility": {"experiment_seed": 0}}).config
    assert complete(config, now=1.0, words="a-b-c", checkpoints="/x") == config


def test_the_door_of_the_package_is_light() -> None:
    program = "import sys, determined.config\nassert not {'pydantic', 'ruamel', 'torch'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
