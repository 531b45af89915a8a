"""The list of a thousand searches with a hundred trials each, and the trials of one of them."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from bench.measure import Effort, in_child
from bench.table import Row

EXPERIMENTS, TRIALS = 1_000, 100
LIMIT = 200_000.0  # microseconds


def listing(effort: Effort) -> list[Row]:
    """Read through the store's API, in a store that other processes filled."""
    experiments = min(EXPERIMENTS, effort.store_rows // 100)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        place = {"DET_STORE": str(Path(directory) / "store.sqlite")}
        in_child("bench.cases.listing:fill", {"experiments": experiments}, environment=place)
        found = in_child("bench.cases.listing:read", {"experiments": experiments}, environment=place)
    return [
        Row(
            f"list of {experiments:,} experiments x {TRIALS} trials",
            "determined",
            us=found["list"] * 1e6,
            must_be=f"<= {LIMIT / 1e6:.1f} s",
            ok=found["list"] * 1e6 <= LIMIT,
            note="with state, holder, number of trials and best metric of each",
        ),
        Row(
            f"the {TRIALS} trials of one experiment",
            "determined",
            us=found["trials"] * 1e6,
            note="with steps, best metric and latest checkpoint of each",
        ),
    ]


def fill(*, experiments: int) -> None:
    """Fill the store as runners and workers do; every tenth trial has validations and a checkpoint."""
    from determined.store import open_store
    from determined.store.experiment_changes import Change
    from determined.store.process import this_process

    store = open_store()
    for number in range(experiments):
        new = new_experiment(number)
        lease = store.experiments.acquire(store.experiments.create(new), this_process())
        ids = store.experiments.commit(lease, Change(new_trials=tuple(map(new_trial, range(TRIALS)))))
        _work_on(store, lease, ids[::10])
    store.close()


def new_experiment(number: int) -> Any:
    """Return a search as a file describes it."""
    from determined.store.experiment_changes import NewExperiment

    return NewExperiment(
        key=str(number),
        name=f"search {number}",
        description="",
        labels=["bench"],
        config=_config(),
        original="# the file as it was written\n" * 40,
        seed=number,
        code_dir="/code",
        owner="me",
        created=time.time(),
        paused=False,
        metric="error",
        smaller_is_better=True,
    )


def read(*, experiments: int) -> dict[str, float]:
    """Return the seconds of each call, which is the first of its kind in this process."""
    from determined.store import open_store

    store = open_store()
    start = time.monotonic()
    found = store.experiments.list(limit=experiments)
    middle = time.monotonic()
    trials = store.experiments.trials(found[0].id)
    end = time.monotonic()
    assert len(found) == experiments
    assert {experiment.trial_count for experiment in found} == {len(trials)} == {TRIALS}
    assert found[0].best == min(trial.best for trial in trials if trial.best is not None)
    return {"list": middle - start, "trials": end - middle}


def _work_on(store: Any, lease: Any, trials: list[int]) -> None:
    from determined.store.experiment_changes import Change, TrialChange
    from determined.store.process import this_process
    from determined.store.rows import (
        AttemptStart,
        CheckpointRow,
        MetricRow,
        NewRun,
    )

    changes = tuple(TrialChange(trial_id, "RUNNING", allocation=f"{trial_id}.1", runs=1) for trial_id in trials)
    store.experiments.commit(lease, Change(trials=changes))
    rows: list[Any] = []
    for trial_id in trials:
        key, now = f"{trial_id}.1", time.time()
        run = NewRun("", "/run", {}, {}, now)
        store.begin_attempt(AttemptStart(key, run, this_process(), now, allocation=(trial_id, key)))
        rows += [MetricRow(trial_id, 1, n, "validation", n, f'{{"error": {trial_id % 7 / n}}}', now) for n in (1, 2)]
        rows.append(CheckpointRow(str(trial_id), trial_id, 1, 2, {}, {}, "/checkpoints", now))
    store.write(rows)


def _config() -> dict[str, Any]:
    hyperparameters = {f"hp_{n}": {"type": "double", "minval": 0.0, "maxval": 1.0, "count": None} for n in range(10)}
    return {
        "name": "bench",
        "hyperparameters": hyperparameters,
        "searcher": {"name": "adaptive_asha", "metric": "error", "max_trials": TRIALS},
        "resources": {"slots_per_trial": 1},
        "environment": {"environment_variables": ["A=1", "B=2"]},
    }


def new_trial(number: int) -> Any:
    from determined.store.experiment_changes import NewTrial

    hparams = {f"hp_{n}": n / (number + 1) for n in range(10)}
    return NewTrial(number, f"request-{number}", hparams, number, 4.0, [4.0, 16.0], 0, None, time.time())
