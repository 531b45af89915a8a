"""Fills a store through its own interface as a search would."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

from determined.store.experiment_changes import (
    Change,
    ExperimentChange,
    NewExperiment,
    NewTrial,
    TrialChange,
)
from determined.store.experiment_records import Lease
from determined.store.process import this_process
from determined.store.rows import (
    AttemptStart,
    CheckpointRow,
    LogRow,
    MetricRow,
    NewRun,
    Row,
)
from determined.store.states import ExperimentState, TrialState
from determined.store.store import Store


@dataclass(frozen=True)
class Steps:
    """The reports of a trial: (step, metrics) of each kind, and the steps at which it saves."""

    training: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    validation: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)
    lines: list[tuple[int, str | None, str]] = field(default_factory=list)  # rank, level, text
    passed: dict[str, Any] | None = None  # to `init()`


def new_experiment(store: Store, name: str = "search", **changed: Any) -> int:
    settings: dict[str, Any] = {
        "key": f"key-{time.monotonic_ns()}",
        "name": name,
        "description": "",
        "labels": [],
        "config": {"name": name, "searcher": {"name": "random", "metric": "loss"}, "resources": {}},
        "original": "name: given",
        "seed": 7,
        "code_dir": "",
        "owner": "somebody",
        "created": 1_790_000_000.25,
        "paused": False,
        "metric": "loss",
        "smaller_is_better": True,
    }
    return store.experiments.create(NewExperiment(**{**settings, **changed}))


def lead(store: Store, experiment_id: int) -> Lease:
    return store.experiments.acquire(experiment_id, this_process())


def add_trials(store: Store, lease: Lease, hparams: list[dict[str, Any]]) -> list[int]:
    before = len(store.experiments.trials(lease.experiment_id))
    trials = tuple(
        NewTrial(
            before + number, f"request-{before + number}", one, number, None, [4.0, 16.0], 0, None, 1_790_000_001.0
        )
        for number, one in enumerate(hparams)
    )
    return store.experiments.commit(lease, Change(new_trials=trials))


def work(store: Store, lease: Lease, trial_id: int, steps: Steps) -> None:
    """Let a trial run once with these reports."""
    allocation = f"{lease.experiment_id}.{trial_id}.1"
    running = TrialChange(trial_id, state="RUNNING", allocation=allocation, runs=1)
    store.experiments.commit(lease, Change(trials=(running,)))
    run = NewRun("train.py", f"/runs/{trial_id}", {}, {}, 1_790_000_002.0, passed_hparams=steps.passed)
    begun = store.begin_attempt(
        AttemptStart(allocation, run, this_process(), 1_790_000_002.0, allocation=(trial_id, allocation))
    )
    rows: list[Row] = []
    for group, reports in (("training", steps.training), ("validation", steps.validation)):
        for step, metrics in reports:
            rows.append(
                MetricRow(trial_id, begun.number, len(rows), group, step, json.dumps(metrics), 1_790_000_010.0 + step)
            )
    for step in steps.saved:
        rows.append(
            CheckpointRow(
                f"checkpoint-{trial_id}-{step}",
                trial_id,
                begun.number,
                step,
                {"steps_completed": step},
                {"state_dict.pth": 1500, "code/": 0},
                "/checkpoints",
                1_790_000_011.0 + step,
            )
        )
    for number, (rank, level, text) in enumerate(steps.lines):
        rows.append(LogRow(trial_id, begun.number, rank, number, "stdout", text, 1_790_000_012.5, level))
    store.write(rows)


def end_trial(store: Store, lease: Lease, trial_id: int, state: TrialState, **changed: Any) -> None:
    change = TrialChange(trial_id, state=state, ended=1_790_000_100.0, **changed)
    store.experiments.commit(lease, Change(trials=(change,)))


def end(store: Store, lease: Lease, state: ExperimentState, **changed: Any) -> None:
    change = ExperimentChange(state=state, ended=1_790_000_200.0, **changed)
    store.experiments.commit(lease, Change(experiment=change))
    store.experiments.release(lease)
