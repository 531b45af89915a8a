"""A configuration is validated when its experiment is created, and never again on the way to the first batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from determined.config import experiment
from determined.engines.local import LocalEngine
from determined.experiment.runner.run import run_experiment
from determined.store.open import checked_place
from tests.experiment.inside import create, outcome

PROGRAM = """
import sys
import determined as det
from determined import core

with core.init() as context:
    context.train.report_validation_metrics(1, {"loss": det.get_cluster_info().trial.hparams["lr"]})
validation = ("pydantic", "determined.searchers", "determined.config.experiment")
print("loaded:", [name for name in validation if name in sys.modules])
"""
CONFIG = {
    "entrypoint": "python3 train.py",
    "hyperparameters": {"lr": {"type": "double", "minval": 0.0, "maxval": 1.0}},
    "searcher": {"name": "random", "metric": "loss", "max_trials": 2},
}


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(1) as engine:
        yield engine


def test_it_is_validated_when_it_is_created_and_not_again(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "train.py").write_text(PROGRAM)
    validated: list[dict[str, Any]] = []
    check = experiment._checked

    def counted(config: dict[str, Any]) -> Any:
        validated.append(config)
        return check(config)

    monkeypatch.setattr(experiment, "_checked", counted)
    experiment_id = create(engine, tmp_path / "model", CONFIG)
    assert len(validated) == 1
    run_experiment(checked_place(), experiment_id, engine=engine)
    found = outcome(experiment_id)
    assert (found.experiment.state, len(found.trials)) == ("COMPLETED", 2)
    assert len(validated) == 1
    # The processes of trials cannot validate anything: they do not import what is needed for it.
    assert [log[-1] for log in found.logs.values()] == ["loaded: []"] * 2
