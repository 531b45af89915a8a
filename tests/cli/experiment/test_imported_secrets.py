"""Secrets that an export left out: an imported experiment does not run with asterisks in their place."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from determined.config.secrets.masked_settings import masked_settings, with_variables
from determined.config.secrets.masking import MASK, mask_secrets
from determined.errors import InvalidExperimentException
from determined.experimental import Determined
from tests.cli.det_command import det, det_json, det_ok, run_det
from tests.helpers.records import opened

PROGRAM = """
import json, os
import determined as det
from determined import core

with core.init() as context:
    seen = [os.environ["MY_TOKEN"], det.get_cluster_info().trial.hparams]
    open(os.environ["SEEN"], "w").write(json.dumps(seen))
    context.train.report_validation_metrics(1, {"loss": 1.0})
"""
CONFIG = f"""
name: secret
entrypoint: {shlex.quote(sys.executable)} train.py
hyperparameters:
  api_token: hunter2
  other_token: {{type: const, val: hunter3}}
  lr: {{type: double, minval: 0.1, maxval: 1.0}}
environment:
  environment_variables: [MY_TOKEN=hunter4]
searcher: {{name: random, metric: loss, max_trials: 1}}
"""
NAMES = "hyperparameters.api_token, hyperparameters.other_token.val, environment.environment_variables (MY_TOKEN)"


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the data directory of a machine with an imported experiment whose secrets are masked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MY_TOKEN", raising=False)
    monkeypatch.setenv("DET_DATA_DIR", str(tmp_path / "machine-a"))
    Path("model").mkdir()
    Path("model/train.py").write_text(PROGRAM)
    Path("config.yaml").write_text(CONFIG)
    assert det("e", "create", "config.yaml", "model", "--paused").exit_code == 0
    assert det("e", "export", "1", "--checkpoints", "all", "--code", "-o", "all.tar").exit_code == 0
    assert b"hunter" not in Path("all.tar").read_bytes()
    monkeypatch.setenv("DET_DATA_DIR", str(tmp_path / "machine-b"))
    said = det("e", "import", "all.tar")
    assert said.stderr == f"Secrets were not exported. Set again before running: {NAMES}\n"
    return tmp_path / "machine-b"


def test_it_does_not_run_before_they_are_set(imported: Path) -> None:
    asterisks = f"the configuration holds asterisks in place of secrets: {NAMES}. To run it: "
    options = "--config hyperparameters.api_token=VALUE --config hyperparameters.other_token.val=VALUE"
    advice = f"set MY_TOKEN in the environment of this command, and use det experiment continue 1 {options}\n"
    for command in (["activate", "1"], ["activate", "1", "--detach"], ["continue", "1", "--config", "max_restarts=2"]):
        done = det("e", *command)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr == f"Cannot {command[0]} experiment 1: {asterisks}{advice}"
    with pytest.raises(InvalidExperimentException, match="asterisks in place of secrets"):
        Determined().get_experiment(1).activate()
    forked = det("e", "fork", "1", "--paused")
    assert forked.exit_code == 1
    assert f"use this command with {options}" in forked.stderr
    with opened() as store:
        assert [(row.id, row.state) for row in store.experiments.list()] == [(1, "PAUSED")]
        assert store.experiments.trials(1) == []
        assert store.experiments.journal(1) == []
    assert det_json("queue") == []


def test_it_runs_when_they_are_set(imported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It also applies to a search, whose hyperparameters cannot be changed in another way."""
    monkeypatch.setenv("MY_TOKEN", "mine")
    monkeypatch.setenv("SEEN", str(tmp_path / "seen.json"))
    options = [f"--config=hyperparameters.{name}" for name in ("api_token=new", "other_token.val=newer")]
    done = run_det("e", "continue", "1", *options, "--slots", "1")
    assert done.returncode == 0, done.stderr
    token, hparams = json.loads((tmp_path / "seen.json").read_text())
    assert (token, hparams["api_token"], hparams["other_token"]) == ("mine", "new", "newer")
    with opened() as store:
        (trial,) = store.experiments.trials(1)
        assert (trial.hparams["api_token"], trial.hparams["other_token"]) == (MASK, MASK)
    fixed = det("e", "continue", "1", "--config", "hyperparameters.lr=3")
    assert "hyperparameters.lr" in fixed.stderr
    assert "cannot be changed any more" in fixed.stderr


def test_the_configuration_that_det_shows_is_not_created_again_with_asterisks(imported: Path) -> None:
    Path("shown.yaml").write_text(det_ok("e", "config", "1"))
    done = det("e", "create", "shown.yaml", "model", "--paused")
    assert done.exit_code == 1
    assert done.stderr.startswith("Cannot create the experiment: the configuration holds asterisks in place of secrets")


TEXTS = st.sampled_from(["plain", MASK, f"A_TOKEN={MASK}", "s3://x", f"postgres://u:{MASK}@h/db", "", "a=b"])
VALUES = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "token", "secrets", "val", "type", "entrypoint"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["data", "my_key", "entrypoint", "environment"]), VALUES, max_size=3))
def test_what_masking_changed_is_found_again(config: dict[str, Any]) -> None:
    masked = mask_secrets(config)
    found = masked_settings(masked)
    if masked != config:
        assert found
    assert mask_secrets(masked) == masked


def test_asterisks_that_are_no_secrets_and_variables_that_are_known() -> None:
    config = {"description": MASK, "environment": {"environment_variables": {"cpu": [f"A_TOKEN={MASK}", "B=1"]}}}
    assert masked_settings(config).names == ("environment.environment_variables (A_TOKEN)",)
    assert with_variables(config, {"A": "1"}) == config
    filled = with_variables(config, {"A_TOKEN": "x"})
    assert filled["environment"]["environment_variables"] == {"cpu": ["A_TOKEN", "B=1"]}
    assert not masked_settings(filled)
