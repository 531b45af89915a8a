"""Batch inference as a trial of an experiment: crashes and the retention of checkpoints lose no result."""

from __future__ import annotations

import json
from pathlib import Path

from determined.engines.local import LocalEngine
from determined.experiment.runner.run import run_experiment
from determined.experiment.runner.view import View
from determined.experimental import Determined
from determined.store.open import checked_place
from tests.cli.det_command import det_json, det_ok
from tests.experiment.inside import create, opened, run

CONFIG = {
    "name": "inference",
    "entrypoint": "python3 infer.py",
    "hyperparameters": {"crash_at": [7, 99]},
    "searcher": {"name": "single", "metric": "batches", "max_length": {"batches": 9}},
    "max_restarts": 1,
}


SAVING = """
from determined import core
with core.init() as context:
    with context.checkpoint.store_path({"steps_completed": 7}):
        pass
"""


def test_results_survive_crashes_and_the_clean_up_of_checkpoints(data_home: Path, tmp_path: Path) -> None:
    with LocalEngine(1) as engine:
        found = run(engine, "inference", CONFIG)
    assert found.experiment.state == "COMPLETED", found.logs
    (trial,) = found.trials
    assert trial.restarts == 1
    with opened() as store:
        output = store.outputs.find(trial.id)
        rows = store.checkpoints(trial.id)
    assert output is not None
    assert [row.state for row in rows] == ["ACTIVE", *["DELETED"] * (len(rows) - 1)], "the policy keeps the newest"
    assert {upload.attempt for upload in output.uploads} == {1, 2}
    assert [upload.batches for upload in output.uploads] == [*range(1, 10)], "each batch once"
    with Determined() as determined:
        (listed,) = determined.get_experiment(found.experiment.id).list_outputs()
        target = Path(listed.download(tmp_path / "results"))
    files = {path.name: json.loads(path.read_text()) for path in (target / "rank_0").iterdir()}
    assert files == {**{f"batch_{number}.json": [number] for number in range(9)}, "newest.json": 8}
    assert found.validations[0] == [{"batches": 3}], "reducers hold what the last attempt has seen, and it says so"
    assert "the reducers' metrics are those of the batches from 6 on" in str(found.logs)

    shown = det_json("e", "list-checkpoints", str(found.experiment.id))
    assert [(row["type"], row["state"]) for row in shown] == [
        *[("progress", "DELETED")] * (len(rows) - 1),
        ("progress", "COMPLETED"),
        ("output", "COMPLETED"),
    ]
    assert shown[-1]["uuid"] == output.uuid
    assert [(each["rank"], each["batches"]) for each in shown[-1]["uploads"]] == [(0, n) for n in range(1, 10)]
    printed = det_ok("e", "list-checkpoints", str(found.experiment.id))
    assert printed.splitlines()[0].split()[-1] == "Type"
    assert output.uuid in printed
    assert det_json("e", "lc", str(found.experiment.id), "--best", "9")[-1]["type"] == "progress"

    there = tmp_path / "by-command"
    assert det_ok("checkpoint", "download", output.uuid, "-o", str(there), "-q") == f"{there}\n"
    assert json.loads((there / "rank_0/newest.json").read_text()) == 8
    answer = det_json("e", "delete", str(found.experiment.id), "--yes")
    assert answer["outputs"] == [output.uuid]
    assert not list((data_home / "determined" / "checkpoints").glob("*output*"))


def test_how_far_a_trial_came_that_reports_no_metric_is_what_it_saved(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "save.py").write_text(SAVING)
    views: list[View] = []
    with LocalEngine(1) as engine:
        experiment_id = create(engine, tmp_path / "model", {**CONFIG, "entrypoint": "python3 save.py"})
        run_experiment(checked_place(), experiment_id, engine=engine, observer=views.append)
    assert [(trial.state, trial.steps) for trial in views[-1].trials] == [("COMPLETED", 7)]
