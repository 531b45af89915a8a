"""The package is replaced by a newer version under a running experiment."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import determined
from determined.engines.local import LocalEngine
from tests.experiment.inside import run

PROGRAM = """
from determined import core
with core.init() as context:
    context.train.report_validation_metrics(1, {"loss": 1})
"""


def test_the_experiment_is_paused_and_no_restart_is_used_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    newer = tmp_path / "newer"
    shutil.copytree(Path(determined.__file__).parent, newer / "determined", ignore=shutil.ignore_patterns("*.pyc"))
    with (newer / "determined" / "store" / "databases" / "schema.py").open("a") as file:
        file.write('MIGRATIONS = (*MIGRATIONS, "CREATE TABLE later (id INTEGER)")\n')
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "train.py").write_text(PROGRAM)
    config = {
        "name": "x",
        "entrypoint": "python3 train.py",
        "environment": {"environment_variables": [f"PYTHONPATH={newer}"]},  # which takes a fresh interpreter
        "hyperparameters": {"x": {"type": "categorical", "vals": [1, 2]}},
        "searcher": {"name": "grid", "metric": "loss"},
    }
    with LocalEngine(1) as engine:
        found = run(engine, tmp_path / "model", config)
    assert found.experiment.state == "PAUSED", found.logs
    assert "replaced by another version" in (found.experiment.reason or "")
    assert "must be brought up to date for this version" in (found.experiment.reason or "")
    assert [trial.restarts for trial in found.trials] == [0, 0]
    assert [trial.runs for trial in found.trials] == [1, 0]
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert told.endswith(f"det experiment activate {found.experiment.id}")
