"""The SDK on each kind of database: a standalone run is read, registered and deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from determined import core
from determined.errors import CheckpointInUse
from determined.experimental import Determined, OrderBy
from tests.helpers.postgres import PASSWORD


def test_from_a_run_to_a_registered_model_to_nothing(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_home: Path
) -> None:
    monkeypatch.setenv("DET_STORE", place)
    with core.init() as context:
        for step in (1, 2):
            context.train.report_validation_metrics(step, {"error": 1 / step})
            with context.checkpoint.store_path({"steps_completed": step}) as (path, uuid):
                (path / "weights").write_text(str(step))
    with Determined(place) as determined:
        (experiment,) = determined.list_experiments()
        (trial,) = experiment.list_trials()
        assert [row.metrics for row in trial.iter_metrics("validation")] == [{"error": 1.0}, {"error": 0.5}]
        checkpoint = trial.list_checkpoints("error", OrderBy.ASC)[0]
        assert checkpoint.uuid == uuid
        assert Path(checkpoint.download(tmp_path / "here"), "weights").read_text() == "2"
        checkpoint.add_metadata({"stage": "prod"})
        model = determined.create_model("net")
        version = model.register_version(uuid)
        assert version.checkpoint.metadata == {"steps_completed": 2, "stage": "prod"}
        experiment.set_name("renamed")
        assert [found.name for found in determined.list_experiments(name="renamed")] == ["renamed"]
        with pytest.raises(CheckpointInUse) as told:
            experiment.delete()
        assert PASSWORD not in str(told.value) + repr(determined) + repr(experiment)
        model.delete()
        experiment.delete()
        assert (determined.list_experiments(), determined.list_models()) == ([], [])
    assert list((data_home / "determined" / "runs").iterdir()) == []
    assert not list((data_home / "determined" / "checkpoints").glob("*/weights"))
