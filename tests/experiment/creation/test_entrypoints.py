"""Every form of an entrypoint runs, and can read all that a trial may ask about itself."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from determined.engines.local import LocalEngine
from tests.experiment.inside import Outcome, run

MODEL = "entrypoints"
SCRIPT = "python3 train.py --x 1"
LAUNCHED = f"python3 -m determined.launch.torch_distributed -- {SCRIPT}"


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(2) as made:
        yield made


def config(entrypoint: str | list[str], **fields: Any) -> dict[str, Any]:
    return {
        "name": "entrypoints",
        "entrypoint": entrypoint,
        "hyperparameters": {"global_batch_size": 8, "lr": {"type": "double", "minval": 0.1, "maxval": 1}},
        "searcher": {"name": "single", "metric": "validation_loss", "max_length": {"batches": 8}},
        "data": {"url": "/nowhere"},
        "records_per_epoch": 1000,
        "max_restarts": 0,
        "reproducibility": {"experiment_seed": 1},  # by default the time, by which a later trial may be better
        **fields,
    }


def recorded_info(found: Outcome, rank: int = 0) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads((found.work_dir() / f"told-{rank}.json").read_text())
    return shown


@pytest.mark.parametrize(
    ("entrypoint", "slots"),
    [
        ("model_def:Plain", 1),
        ("model_def:Outer.Inner", 1),
        ("model_def:Old", 1),
        (SCRIPT, 1),
        (["python3", "train.py", "--x", "1"], 1),
        (f"echo before && {SCRIPT}", 1),
        (LAUNCHED, 2),
        ("model_def:Plain", 2),
    ],
)
def test_every_form_gets_the_complete_cluster_info(
    engine: LocalEngine, entrypoint: str | list[str], slots: int
) -> None:
    found = run(engine, MODEL, config(entrypoint, resources={"slots_per_trial": slots}))
    assert found.experiment.state == "COMPLETED", found.logs
    (trial,) = found.trials
    assert found.validations[0][-1].get("ranks", 1) == slots
    for rank in range(slots):
        check_info(recorded_info(found, rank), found, slots)
    assert recorded_info(found)["session_token"] not in str(found.logs)
    if isinstance(entrypoint, list) or "train.py" in entrypoint:
        assert found.validations[0][-1]["x"] == "1"
        assert "x is '1'" in str(found.logs)
    if slots == 2 and entrypoint == LAUNCHED:
        assert recorded_info(found)["environment"]["USE_TORCH_DISTRIBUTED"] == "True"
    assert trial.state == "COMPLETED"


def check_info(shown: dict[str, Any], found: Outcome, slots: int) -> None:
    """Check each field, and the variables of the same meaning."""
    (trial,) = found.trials
    experiment = found.experiment
    own, variables = shown["_trial_info"], shown["environment"]
    assert shown["master_url"] == "local"
    assert len(shown["cluster_id"]) == 36
    assert shown["agent_id"] == socket.gethostname()
    assert shown["slot_ids"] == list(range(slots))
    assert shown["task_id"] == f"{experiment.id}.{trial.request_id}"
    assert shown["allocation_id"] == f"{experiment.id}.{trial.request_id}.1"
    assert len(shown["session_token"]) >= 32
    assert shown["task_type"] == "TRIAL"
    assert (shown["master_cert_name"], shown["master_cert_file"], shown["latest_checkpoint"]) == (None, None, None)
    assert shown["user_data"] == {"url": "/nowhere"}
    assert (shown["container_addrs"], shown["container_rank"]) == (["127.0.0.1"], 0)
    assert shown["container_slot_counts"] == [slots]
    assert shown["gpu_uuids"] == []
    assert (own["trial_id"], own["experiment_id"]) == (trial.id, experiment.id)
    assert own["trial_seed"] == trial.seed
    assert own["hparams"] == trial.hparams
    assert (own["_steps_completed"], own["_trial_run_id"], own["_debug"]) == (0, 1, False)
    assert own["_inter_node_network_interface"] is None
    assert own["_config"]["searcher"]["name"] == "single"
    assert own["_config"]["records_per_epoch"] == 1000
    assert own["_config"]["entrypoint"] == experiment.config["entrypoint"]
    expected = {
        "DET_EXPERIMENT_ID": experiment.id,
        "DET_TRIAL_ID": trial.id,
        "DET_TRIAL_RUN_ID": 1,
        "DET_TRIAL_SEED": trial.seed,
        "DET_STEPS_COMPLETED": 0,
        "DET_HPARAMS": trial.hparams,
        "DET_EXPERIMENT_CONFIG": own["_config"],
        "DET_SLOT_IDS": list(range(slots)),
    }
    assert {name: json.loads(variables[name]) for name in expected} == expected
    names = {"TASK_TYPE", "TASK_ID", "ALLOCATION_ID", "CLUSTER_ID", "AGENT_ID", "SESSION_TOKEN", "MASTER"}
    assert {f"DET_{name}" for name in names} <= variables.keys()
    assert {"DET_RESOURCES_ID", "DET_RESOURCES_TYPE"} <= variables.keys()
    assert "DET_LATEST_CHECKPOINT" not in variables


def test_a_metric_that_only_the_searcher_gets(engine: LocalEngine, caplog: pytest.LogCaptureFixture) -> None:
    searcher = {"name": "single", "metric": "validation_loss", "max_length": {"epochs": 2}}
    found = run(engine, MODEL, config("python3 operations.py", searcher=searcher))
    (trial,) = found.trials
    assert (trial.state, trial.best) == ("COMPLETED", trial.hparams["lr"] / 2)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


def test_arguments_with_spaces_reach_the_script_unchanged(engine: LocalEngine) -> None:
    found = run(engine, MODEL, config(["python3", "train.py", "--x", "a b; exit 3"]))
    assert found.validations[0][-1]["x"] == "a b; exit 3"


def test_variables(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPIED", "from here")
    given = {"environment_variables": ["PLAIN=a value=with equals", "COPIED", "PYTHONHASHSEED=7"]}
    for entrypoint in (SCRIPT, "model_def:Plain"):
        found = run(engine, MODEL, config(entrypoint, environment=given))
        assert found.experiment.state == "COMPLETED", found.logs
        seen = recorded_info(found)["environment"]
        assert seen["PLAIN"] == "a value=with equals"
        assert (seen["COPIED"], seen["PYTHONHASHSEED"]) == ("from here", "7")


@pytest.mark.parametrize("unit", ["batches", "epochs"])
def test_operations_up_to_each_rung(engine: LocalEngine, unit: str, caplog: pytest.LogCaptureFixture) -> None:
    """`report_completed` adds the missing length and metric to a validation: there is no warning."""
    searcher = {
        "name": "adaptive_asha",
        "metric": "validation_loss",
        "max_trials": 6,
        "max_length": {unit: 16},
        "mode": "aggressive",
    }
    found = run(engine, MODEL, config("python3 operations.py", searcher=searcher))
    assert found.experiment.state == "COMPLETED", found.logs
    rungs = found.trials[0].rungs
    assert rungs == [4, 16]
    for trial in found.trials:
        lengths = [report[unit] for report in found.validations[trial.number] if unit in report]
        assert lengths == rungs[: len(lengths)]
        assert trial.state == ("COMPLETED" if len(lengths) == len(rungs) else "STOPPED_EARLY")
    best = min(found.trials, key=lambda trial: trial.hparams["lr"])
    assert (best.state, found.experiment.best) == ("COMPLETED", best.hparams["lr"] / 16)
    assert {trial.state for trial in found.trials} == {"COMPLETED", "STOPPED_EARLY"}
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []
