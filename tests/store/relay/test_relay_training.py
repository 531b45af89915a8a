"""A trial class that is trained by a real process whose store is behind a relay."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from determined.info import TRIAL, ClusterInfo, RendezvousInfo, TrialInfo, to_env
from determined.store.store import Store
from tests.helpers import warm
from tests.store.relay_trials import Served, served

MODEL = Path(__file__).parents[2] / "experiment" / "models" / "linear"
HPARAMS = {"lr": 0.01, "global_batch_size": 16}


def train(
    trials: Served, home: Path, store: str, ranks: int, run: int, batches: int, resume: tuple[str, int] | None
) -> None:
    """Run the processes of trial 1's next job to their end, as an engine would."""
    job = f"job-1.{run}"
    trials.start(1, job)
    config: dict[str, Any] = {
        "name": "relayed",
        "searcher": {"name": "single", "metric": "validation_loss", "max_length": {"batches": batches}},
        "min_validation_period": {"batches": 8},
        "min_checkpoint_period": {"batches": 8},
        "scheduling_unit": 4,
        "hyperparameters": HPARAMS,
        "checkpoint_storage": {
            "type": "shared_fs",
            "host_path": str(home / "checkpoints"),
            "save_trial_latest": 1,
            "save_trial_best": 1,
            "save_experiment_best": 0,
        },
    }
    checkpoint, steps = resume or (None, 0)
    info = ClusterInfo(
        master_url="local",
        cluster_id="one",
        agent_id="node",
        slot_ids=list(range(ranks)),
        task_id="1",
        allocation_id=job,
        session_token="none",
        task_type=TRIAL,
        _latest_checkpoint=checkpoint,
        _trial_info=TrialInfo(
            trial_id=1,
            experiment_id=trials.lease.experiment_id,
            trial_seed=7,
            hparams=HPARAMS,
            _config=config,
            _steps_completed=steps,
            _trial_run_id=run,
        ),
        _rendezvous_info=RendezvousInfo(["127.0.0.1"], 0, [ranks]),
    )
    (home / "checkpoints").mkdir(parents=True, exist_ok=True)
    own = {"DET_STORE": store, "DET_RUNNER": str(os.getpid()), "XDG_DATA_HOME": str(home), "OMP_NUM_THREADS": "1"}
    module = ["determined.exec.harness"] if ranks == 1 else ["determined.launch.torch_distributed", "--trial"]
    done = warm.run(
        [sys.executable, "-m", *module, "model_def:LinearTrial"],
        cwd=MODEL,
        env={**os.environ, **to_env(info), **own},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def record(store: Store) -> dict[str, Any]:
    """Return everything that must not depend on the way to the store."""
    trial = store.experiments.trial(1)
    return {
        "metrics": [
            (row.group, row.steps_completed, row.metrics, row.attempt, row.archived)
            for row in store.metrics(1, archived=True)
            if row.group != "system"
        ],
        "attempts": [(row.number, row.start_step, row.state) for row in store.attempts(1)],
        "checkpoints": [
            (row.steps_completed, row.attempt, row.state, sorted(row.resources), row.validation)
            for row in store.checkpoints(1)
        ],
        "trial": (trial.best, trial.steps_completed, trial.progress, trial.phase, trial.passed_hparams),
    }


def trained(home: Path, ranks: int, *, relayed: bool) -> dict[str, Any]:
    """Train in one job, resume in another one, and return what was recorded."""
    home.mkdir()
    with served(home / "store.sqlite") as trials:
        store = f"relay:{trials.relay.path}" if relayed else str(trials.path)
        train(trials, home, store, ranks, 1, 20, None)
        newest = trials.store.checkpoints(1)[0]
        assert newest.steps_completed == 20
        train(trials, home, store, ranks, 2, 36, (newest.checkpoint_id, newest.steps_completed))
        assert not (home / "determined" / "store.sqlite").exists(), "nothing is recorded on the worker's machine"
        return record(trials.store)


@pytest.mark.parametrize("ranks", [1, 2])
def test_training_and_resuming_through_a_relay_gives_the_same_rows(tmp_path: Path, ranks: int) -> None:
    relayed = trained(tmp_path / "relayed", ranks, relayed=True)
    assert relayed == trained(tmp_path / "direct", ranks, relayed=False)
    assert [number for number, _, _ in relayed["attempts"]] == [1, 2]
    assert relayed["trial"][1] == 36
    assert "DELETED" in [state for _, _, state, _, _ in relayed["checkpoints"]], "the retention policy was applied"
