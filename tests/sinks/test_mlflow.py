"""MLflow's own client and a tracking store in files, read back by the same client."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest

from determined.core.initialize import open_run
from tests.sinks.resuming import run_twice

if importlib.util.find_spec("mlflow") is None:
    pytest.skip("MLflow's client is not installed: pip install mlflow-skinny", allow_module_level=True)


def test_a_resumed_trial_is_one_run_with_each_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = (tmp_path / "tracking").as_uri()
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    first, second = run_twice(tmp_path, DET_SINKS="mlflow", MLFLOW_TRACKING_URI=place)

    from mlflow import MlflowClient

    client = MlflowClient(place)
    experiment = client.get_experiment_by_name("my lines")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("my lines-1", "FINISHED")
    assert run.data.params == {"lr": "0.1", "net.width": "8", "net.api_key": "********"}
    tags = run.data.tags
    assert tags["determined.labels"] == "small, odd/name"
    assert tags["mlflow.note.content"] == "what for"
    assert tags["determined.checkpoint.5"].startswith(f"{first} in ")
    assert tags["determined.checkpoint.8"].startswith(f"{second} in ")
    assert "s3cr3t" not in repr(tags)

    def steps(name: str) -> list[int]:
        return [metric.step for metric in client.get_metric_history(run.info.run_id, name)]

    assert steps("training/loss") == steps("training/by class/a_b") == list(range(1, 9))
    assert steps("validation/loss") == [5, 8]
    assert math.isnan(run.data.metrics["validation/loss"])


def test_names_and_numbers_of_any_kind_and_in_any_amount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = (tmp_path / "tracking").as_uri()
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", place)
    monkeypatch.setenv("DET_SINKS", "mlflow")
    odd = {"../a": 1.0, "//": 2.0, "a\nb": 3.0, "x" * 5000: 4.0, "🙂🙂": 5.0, "inf": math.inf, "large": 10**400}
    hparams = {f"h{number}": number for number in range(250)} | {"..": None, "long": "y" * 10_000}
    with open_run(hparams=hparams, exp_conf={"name": "'; drop \n\"", "labels": 3}) as context:
        context.train.report_training_metrics(1, odd | {f"m{number}": float(number) for number in range(2000)})

    from mlflow import MlflowClient

    client = MlflowClient(place)
    experiment = client.get_experiment_by_name("_ drop _")
    (run,) = client.search_runs([experiment.experiment_id])
    assert len(run.data.params) == 252
    assert len(run.data.metrics) == 2006
    names = ("training/_/a", "training/_/_/_", "training/a_b", "training/__")
    assert [run.data.metrics[name] for name in names] == [1, 2, 3, 5]
