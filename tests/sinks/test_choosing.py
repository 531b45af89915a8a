"""Which services a run reports to: by its configuration, by `DET_SINKS`, and what is rejected before training."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from determined import core
from determined.config.experiment import load_experiment
from determined.core.initialize import open_run
from determined.errors import InvalidConfigurationException, InvalidExperimentConfig, MissingExtraError
from determined.sinks.selection import _is_installed, chosen_sinks
from tests.sinks.programs import STAND_IN

MINIMAL = {"entrypoint": "model_def:MyTrial", "searcher": {"name": "single", "metric": "loss"}}


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create packages with the names of all three."""
    for name in ("mlflow", "wandb", "trackio"):
        (tmp_path / f"{name}.py").write_text("raise AssertionError('nobody needs it yet')")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("clients")
@pytest.mark.parametrize(
    ("block", "variable", "names"),
    [
        (None, "", []),
        ({}, " ", []),
        ({"wandb": None}, "", []),
        ({"wandb": {}}, "", ["wandb"]),
        ({"trackio": {"project": "p"}, "mlflow": {"experiment": "e"}}, "", ["mlflow", "trackio"]),
        (None, "wandb, mlflow", ["mlflow", "wandb"]),
        ({"mlflow": {}}, "mlflow,trackio", ["mlflow", "trackio"]),
    ],
)
def test_those_of_the_configuration_and_those_of_the_variable(block: object, variable: str, names: list[str]) -> None:
    chosen = chosen_sinks(block, {"DET_SINKS": variable})
    assert [sink.name for sink in chosen] == names


def test_a_configuration_that_is_wrong_is_refused_where_it_is_wrong() -> None:
    wrong = {"wandb": {"mode": "of"}, "mlfow": {}, "trackio": {"project": 3}}
    for refuse in (lambda: load_experiment({**MINIMAL, "sinks": wrong}), lambda: chosen_sinks(wrong, {})):
        with pytest.raises(InvalidExperimentConfig) as error:
            refuse()
        assert {mistake.path for mistake in error.value.mistakes} == {
            "sinks.wandb.mode",
            "sinks.mlfow",
            "sinks.trackio.project",
        }
        assert "did you mean mlflow?" in str(error.value)


def test_a_run_with_an_unknown_name_does_not_begin(monkeypatch: pytest.MonkeyPatch, data_home: Path) -> None:
    monkeypatch.setenv("DET_SINKS", "wanbd")
    with pytest.raises(InvalidConfigurationException, match=r"DET_SINKS names 'wanbd'.*mlflow, wandb, trackio"):
        core.init()
    assert not list(data_home.rglob("run.json"))


@pytest.mark.parametrize("name", ["mlflow", "wandb", "trackio"])
def test_a_missing_package_is_named_with_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("determined.sinks.selection._is_installed", lambda name: False)
    with pytest.raises(MissingExtraError, match=rf'pip install "determined-pytorch\[{name}\]"'):
        open_run(exp_conf={"sinks": {name: {}}})


def test_a_run_without_sinks_loads_nothing_of_them(tmp_path: Path) -> None:
    (tmp_path / "trackio.py").write_text(STAND_IN)
    program = """
import sys
from determined import core
with core.init() as context:
    context.train.report_training_metrics(1, {"loss": 1.0})
unwanted = ("determined.sinks.", "determined.config.blocks.sinks", "trackio")
print([name for name in sys.modules if name.startswith(unwanted)])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert (done.returncode, done.stdout) == (0, "['determined.sinks.selection']\n"), done.stderr


@pytest.mark.skipif(_is_installed("mlflow"), reason="MLflow's client is installed: nothing is missing")
def test_an_experiment_without_its_client_is_not_created(tmp_path: Path) -> None:
    config = tmp_path / "experiment.yaml"
    config.write_text("entrypoint: python3 -c pass\nsearcher: {name: single, metric: loss}\nsinks: {mlflow: {}}\n")
    (tmp_path / "model").mkdir()
    command = [sys.executable, "-m", "determined.cli", "experiment", "create", str(config), str(tmp_path / "model")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.endswith('the sink mlflow needs the package mlflow: pip install "determined-pytorch[mlflow]"')
