"""A search that loses a slot in the middle: trials that wait for each other take turns on the remaining one."""

from __future__ import annotations

import json
import logging
import socket
import threading
from typing import Any

import pytest

from determined.config.experiment import load_experiment
from determined.engines.granted import GrantedEngine
from determined.engines.local import LocalEngine
from determined.experiment.creation.create import create_experiment
from determined.experiment.runner.run import run_experiment
from determined.store.open import checked_place
from tests.experiment.conftest import MODELS
from tests.experiment.inside import Outcome, opened, outcome, run

CONFIG: dict[str, Any] = {
    "name": "halving",
    "entrypoint": "python3 train.py 0.1 16",
    "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}},
    "searcher": {
        "name": "async_halving",
        "metric": "loss",
        "max_trials": 6,
        "num_rungs": 3,
        "divisor": 2,
        "time_metric": "batches",
        "max_time": 16,
    },
    "reproducibility": {"experiment_seed": 21},
    "max_restarts": 0,
}


def take_one_back(connection: socket.socket) -> None:
    """Grant two slots; when both are in use take the slot of the earlier trial back for good."""
    with connection, connection.makefile("rwb", buffering=0) as line:
        line.write(b'{"grant": [0, 1], "number": 1}\n')
        for said in line:
            if json.loads(said)["uses"] == [0, 1]:
                line.write(b'{"grant": [1], "number": 2}\n')
                break
        for _ in line:
            pass


def results(found: Outcome) -> list[Any]:
    trials = [(trial.hparams, trial.seed, trial.state, trial.best) for trial in found.trials]
    return [trials, found.validations, found.experiment.state, found.experiment.best]


@pytest.mark.thorough
def test_it_ends_like_an_uninterrupted_one_and_no_trial_waits_forever(caplog: pytest.LogCaptureFixture) -> None:
    with LocalEngine(2) as engine:
        undisturbed = run(engine, "steady", CONFIG)
    ours, theirs = socket.socketpair()
    granter = threading.Thread(target=take_one_back, args=(theirs,))
    granter.start()
    with caplog.at_level(logging.WARNING, "determined"), GrantedEngine(2, ours) as engine:
        with opened() as store:
            experiment = create_experiment(load_experiment(CONFIG), MODELS / "steady", store, slots=2).experiment_id
            run_experiment(checked_place(), experiment, engine=engine)
    granter.join(30)
    found = outcome(experiment)
    assert results(found) == results(undisturbed)
    assert found.trials[0].runs > 1, "it left its slot, and came back"
    assert [record.getMessage() for record in caplog.records] == []
