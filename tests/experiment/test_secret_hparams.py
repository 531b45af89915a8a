"""Secrets among the hyperparameters of an experiment: trials train with them, and the store does not contain them."""

from __future__ import annotations

from pathlib import Path

from determined.config.secrets.masking import MASK
from determined.engines.local import LocalEngine
from determined.experiment.runner import restored_trials
from determined.experiment.runner.run import run_experiment
from determined.experiment.runner.view import View
from determined.store.open import checked_place
from tests.cli.det_command import det_ok
from tests.experiment.inside import create, opened, outcome

SECRET = "kept-very-secret-4711"
PROGRAM = """
import determined as det
from determined import core
hparams = det.get_cluster_info().trial.hparams
with core.init() as context:
    context.train.report_validation_metrics(1, {"loss": len(hparams["data"]["url"]) + len(hparams["api_token"])})
"""
SPACE = {
    "api_token": SECRET,
    "data": {"url": f"postgresql://user:{SECRET}@localhost/db"},
    "lr": {"type": "double", "minval": 0.1, "maxval": 1.0},
}


def test_trials_train_with_what_the_store_does_not_hold(data_home: Path, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "train.py").write_text(PROGRAM)
    searcher = {"name": "pbt", "metric": "loss", "population_size": 2, "num_rounds": 1, "length_per_round": 1}
    config = {"name": "x", "entrypoint": "python3 train.py", "hyperparameters": SPACE, "searcher": searcher}
    views: list[View] = []
    with LocalEngine(1) as engine:
        experiment_id = create(engine, tmp_path / "model", config)
        run_experiment(checked_place(), experiment_id, engine=engine, observer=views.append)
    found = outcome(experiment_id)
    assert found.experiment.state == "COMPLETED", found.logs
    length = len(f"postgresql://user:{SECRET}@localhost/db") + len(SECRET)
    assert found.validations[0] == [{"loss": length}]
    assert {trial.hparams["api_token"] for trial in found.trials} == {MASK}
    assert SECRET not in str(views)
    holding = {path.name for path in data_home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()}
    assert holding == {"config.json"}  # of the experiment, readable by its owner only
    assert SECRET not in det_ok("e", "describe", str(experiment_id), "--json")
    with opened() as store:
        rows, journal = store.experiments.trials(experiment_id), store.experiments.journal(experiment_id)
        restored = restored_trials.trials(rows, journal, SPACE)
    assert [trial.spec.hparams["data"]["url"] for trial in restored] == [SPACE["data"]["url"]] * 2  # type: ignore[index]
    assert [trial.spec.hparams["lr"] for trial in restored] == [trial.hparams["lr"] for trial in found.trials]
