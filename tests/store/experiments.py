"""Experiments with a search, for tests of the store."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

from determined.store.experiment_changes import (
    Change,
    NewExperiment,
    NewTrial,
    TrialChange,
)
from determined.store.experiment_records import Lease
from determined.store.process import Process
from determined.store.rows import AttemptStart, BegunAttempt
from determined.store.store import Store
from tests.store.rows import GONE, start

_runs = itertools.count(1)


def new_experiment(**changes: Any) -> NewExperiment:
    values: dict[str, Any] = {
        "key": str(uuid.uuid4()),
        "name": "mine",
        "description": "what it is for",
        "labels": ["one", "two"],
        "config": {"searcher": {"name": "random", "metric": "error", "max_trials": 4}},
        "original": "searcher:\n  name: random\n",
        "seed": 7,
        "code_dir": "/experiments/1/code",
        "owner": "me",
        "created": 1000.0,
        "paused": False,
        "metric": "error",
        "smaller_is_better": True,
    }
    return NewExperiment(**{**values, **changes})


def new_trial(number: int, **changes: Any) -> NewTrial:
    values: dict[str, Any] = {
        "number": number,
        "request_id": f"request-{number}",
        "hparams": {"lr": number / 10},
        "seed": 100 + number,
        "goal": 4.0,
        "rungs": [4.0, 16.0],
        "bracket": number % 2,
        "source_checkpoint_id": None,
        "created": 2000.0 + number,
    }
    return NewTrial(**{**values, **changes})


def held_experiment(store: Store, process: Process = GONE, **changes: Any) -> Lease:
    """Create an experiment, and acquire its lease."""
    return store.experiments.acquire(store.experiments.create(new_experiment(**changes)), process)


def with_trials(store: Store, count: int, **changes: Any) -> tuple[Lease, list[int]]:
    """Create an experiment with a number of trials."""
    lease = held_experiment(store, **changes)
    return lease, store.experiments.commit(lease, Change(new_trials=tuple(map(new_trial, range(count)))))


def allocate(store: Store, lease: Lease, trial_id: int) -> str:
    """Start a trial, as a runner does."""
    allocation = f"{lease.experiment_id}.{trial_id}.{next(_runs)}"
    change = TrialChange(trial_id, state="RUNNING", allocation=allocation)
    store.experiments.commit(lease, Change(trials=(change,)))
    return allocation


def begin_managed(
    store: Store,
    lease: Lease,
    trial_id: int,
    *,
    steps: int = 0,
    checkpoint: str | None = None,
    passed: dict[str, Any] | None = None,
) -> BegunAttempt:
    """Begin the attempt of a trial that was just started; `passed` is what its program passes to `init()`."""
    start = managed_start(trial_id, allocate(store, lease, trial_id), steps, checkpoint)
    return store.begin_attempt(start._replace(run=start.run._replace(passed_hparams=passed)))


def managed_start(trial_id: int, allocation: str, steps: int = 0, checkpoint: str | None = None) -> AttemptStart:
    standalone = start(steps=steps, checkpoint=checkpoint)
    return AttemptStart(
        standalone.key,
        standalone.run,
        standalone.process,
        standalone.started,
        checkpoint,
        steps,
        allocation=(trial_id, allocation),
    )
