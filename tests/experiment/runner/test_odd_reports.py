"""Trials that report in unusual ways are compared as well; none of them waits forever."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.helpers.searches import Search

ODD = Path(__file__).parents[1] / "models" / "odd"
SPACE = {"x": {"type": "double", "minval": 0, "maxval": 1}}


def searching(script: str, **fields: object) -> dict[str, object]:
    searcher = {"name": "async_halving", "metric": "loss", "num_rungs": 2, "divisor": 2}
    return {
        "name": script,
        "entrypoint": f"python3 {script}",
        "hyperparameters": SPACE,
        "searcher": {**searcher, **fields},
        "reproducibility": {"experiment_seed": 3},
    }


def test_an_operation_that_is_completed_long_after_its_validation(tmp_path: Path) -> None:
    search = Search(tmp_path, ODD, searching("late.py", max_trials=2, max_length={"epochs": 4}))
    experiment = search.create()
    search.activate(experiment, timeout=60)
    with search.opened() as store:
        ended = [(trial.state, trial.steps_completed) for trial in store.experiments.trials(experiment)]
    assert ("COMPLETED", 40) in ended
    assert {state for state, _ in ended} <= {"COMPLETED", "STOPPED_EARLY"}


def test_validations_that_are_counted_otherwise_than_checkpoints(tmp_path: Path) -> None:
    search = Search(tmp_path, ODD, searching("backwards.py", max_trials=1, max_time=6, time_metric="epochs"))
    experiment = search.create()
    search.activate(experiment, timeout=60)
    with search.opened() as store:
        (trial,) = store.experiments.trials(experiment)
        assert (trial.state, trial.restarts, trial.steps_completed) == ("COMPLETED", 1, 6)


def test_no_metric_value_stops_the_runner_or_wins(tmp_path: Path) -> None:
    search = Search(tmp_path, ODD, searching("values.py", max_trials=9, max_time=3, time_metric="epochs"))
    experiment = search.create()
    runner = search.start(experiment)
    search.wait_for(lambda store: any(store.metrics(trial.id) for trial in store.experiments.trials(experiment)))
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    search.activate(experiment, timeout=60)  # it reads again what was reported before
    with search.opened() as store:
        trials = store.experiments.trials(experiment)
        assert {trial.state for trial in trials} <= {"COMPLETED", "STOPPED_EARLY"}
        assert [trial.best for trial in trials] == [None] * 6 + [0.5, 0.5, 0.25]
        assert store.experiments.get(experiment).best == 0.25
        assert store.metrics(trials[0].id)[0].metrics["loss"] == 10**400  # stored as it was given
    for command in (["describe", "--metrics"], ["list-checkpoints", "--best", "9"], ["list-trials"]):
        search.det("experiment", command[0], str(experiment), *command[1:])


@pytest.mark.thorough
def test_every_rank_reports_and_the_chief_decides(tmp_path: Path) -> None:
    config = searching("ranks.py", max_trials=1, max_time=4, time_metric="epochs")
    config["entrypoint"] = "python3 -m determined.launch.torch_distributed python3 ranks.py"
    config["resources"] = {"slots_per_trial": 2}
    search = Search(tmp_path, ODD, config)
    experiment = search.create()
    search.activate(experiment, timeout=90)
    with search.opened() as store:
        (trial,) = store.experiments.trials(experiment)
        assert (trial.best, trial.state) == (trial.hparams["x"], "COMPLETED")
        (run,) = store.runs()
        assert (run.attempt.number, run.metadata) == (1, {"of rank 0": trial.id, "of rank 1": trial.id})
        logs = [line.text for line in store.logs(trial.id)]
        # At its rungs it waited for the decision about the chief's report.
        reached = [entry.event for entry in store.experiments.journal(experiment) if "time" in entry.event]
        assert [(event["time"], event["metric"]) for event in reached] == [(2, trial.best), (4, trial.best)]
    assert sum("the value of the lowest rank is used" in line for line in logs) == 1
    (plain,) = json.loads(search.det("experiment", "describe", str(experiment), "--metrics", "--json").stdout)
    workload = plain["trials"][0]["workloads"][0]["validation"]
    assert workload["metrics"] == {"loss": trial.best, "epochs": 1, "of rank 0": 1, "of rank 1": 1}
    assert workload["ranks"] == {"loss": 0, "epochs": 0, "of rank 0": 0, "of rank 1": 1}
