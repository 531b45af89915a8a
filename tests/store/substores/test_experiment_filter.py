"""Filters of the list of experiments: the database finds the same as a comparison with each experiment."""

from __future__ import annotations

import fnmatch
import itertools
from typing import Any

import pytest

from determined.store.experiment_changes import Change, ExperimentChange, TrialChange
from determined.store.experiment_records import Experiment, ExperimentFilter
from determined.store.process import Process, this_process
from determined.store.rows import AttemptStart, EndRow, NewRun
from determined.store.store import Store
from tests.store.experiments import held_experiment, new_experiment, with_trials
from tests.store.rows import alive, begin, metric

# Each resembles a part of another one, or of the list in which it is stored.
LABELS = ["a", '"a"', ", ", "a, b", "b", "é", "100%", "", "]"]
NAMES = ["mine", "Mine too", "100%", "10_0", "a*b", "ä", "!x", ""]
PATTERNS = [None, "mine", "MINE*", "*", "?0_0", "100%", "1*%", "a*b", "[m]ine", "!x", "train.??", "", "no such"]


def standalone(store: Store, config: dict[str, Any], program: str, process: Process) -> int:
    run = NewRun(program, "/runs/1", {}, config, created=5.0)
    key = f"{program} {config} {process}"
    return store.begin_attempt(AttemptStart(key, run, process, 5.0)).experiment_id


@pytest.fixture
def filled(store: Store) -> Store:
    for number, name in enumerate(NAMES):
        labels = LABELS[number : number + 3]
        lease = held_experiment(store, name=name, labels=labels, owner=f"me{number % 3}", created=float(number))
        state = ("ACTIVE", "PAUSED", "COMPLETED", "ERROR")[number % 4]
        store.experiments.commit(lease, Change(experiment=ExperimentChange(state=state)))  # type: ignore[arg-type]
    killed = Process(this_process().host, this_process().pid, "another start")
    for config, program, process in (
        ({"name": "mine", "labels": ["a", "b"]}, "/home/train.py", alive()),
        ({}, "/home/train.py", killed),
        ({"labels": [", "]}, "/home/TRAIN.py", alive()),
        ({"name": "100%"}, "/home/other.py", alive()),
    ):
        standalone(store, config, program, process)
    trials = [row.id for row in store.experiments.list() if row.is_standalone and row.name == "TRAIN.py"]
    store.write([EndRow(store.experiments.trials(trials[0])[0].id, 1, "stopped", 9.0, 1.0)])
    # Several trials in one experiment: the state does not follow from one of them.
    several: dict[str, list[str | None]] = {
        "one": ["failed", "completed", "stopped"],
        "two": ["completed", "failed", None],
        "three": ["canceled"],
        "four": ["canceled", "stopped"],
    }
    for name, ends in several.items():
        for end in ends:
            begun = begin(store, process=alive(), external_experiment=name)
            if end is not None:
                store.write([EndRow(begun.trial_id, 1, end, 9.0, 1.0)])  # type: ignore[arg-type]
    return store


def test_the_database_finds_what_a_look_at_each_finds(filled: Store) -> None:
    everything = filled.experiments.list()
    assert len({row.state for row in everything}) == 5

    def wanted(row: Experiment, only: ExperimentFilter) -> bool:
        pattern = None if only.name is None else only.name.lower().replace("[", "[[]")
        return (
            (not only.states or row.state in only.states)
            and set(only.labels) <= set(row.labels)
            and (pattern is None or fnmatch.fnmatchcase(row.name.lower(), pattern))
            and (only.owner is None or fnmatch.fnmatchcase(row.owner, only.owner))
            and (only.since is None or row.created >= only.since)
        )

    states: list[Any] = [(), ("ACTIVE",), ("COMPLETED",), ("ERROR", "CANCELED"), ("PAUSED",), ("STOPPING_KILLED",)]
    labels: list[tuple[str, ...]] = [(), *((label,) for label in LABELS), ("a", "b")]
    one_by_one = [
        *(ExperimentFilter(states=one) for one in states),
        *(ExperimentFilter(labels=one) for one in labels),
        *(ExperimentFilter(name=one) for one in PATTERNS),
        *(ExperimentFilter(owner=one) for one in ("me1", "me*", "x")),
        *(ExperimentFilter(since=one) for one in (0.0, 3.0, 1e12)),
    ]
    together = [
        ExperimentFilter(states=state, name=name, since=3.0)
        for state, name in itertools.product(states[1:4], ["*in*", "two"])
    ]
    for only in (*one_by_one, *together):
        found = [row.id for row in filled.experiments.list(only=only)]
        assert found == [row.id for row in everything if wanted(row, only)], only
        assert [row.id for row in filled.experiments.list(only=only, limit=2, offset=1)] == found[1:3]


def test_archived_ones_are_filtered_as_well(store: Store) -> None:
    kept, away = (store.experiments.create(new_experiment(name=name)) for name in ("a", "ab"))
    lease = store.experiments.acquire(away, alive())
    store.experiments.commit(lease, Change(experiment=ExperimentChange(archived=True)))
    only = ExperimentFilter(name="a*")
    assert [row.id for row in store.experiments.list(only=only)] == [kept]
    assert [row.id for row in store.experiments.list(only=only, archived=True)] == [away, kept]


def test_ids_between_two_numbers(store: Store) -> None:
    leases = [with_trials(store, 2) for _ in range(3)]
    ids = [lease.experiment_id for lease, _ in leases]
    trials = [trial for _, two in leases for trial in two]
    assert store.experiments.ids_between(ids[1], 10**12) == ids[1:]
    assert store.experiments.ids_between(0, ids[0]) == ids[:1]
    assert store.experiments.ids_between(10**9, 10**12) == []
    assert store.experiments.trial_ids_between(trials[1], trials[4]) == trials[1:5]


def test_the_newest_validation_of_each_trial_and_its_best_by_any_metric(store: Store) -> None:
    from tests.store.experiments import begin_managed

    lease, trials = with_trials(store, 3)
    for trial_id in trials[:2]:
        run = begin_managed(store, lease, trial_id)
        store.write(
            [
                metric(run, "validation", 4, {"error": 0.5, "accuracy": trial_id}),
                metric(run, "validation", 8, {"error": 0.75, "accuracy": float("nan")}),
                metric(run, "training", 9, {"error": 0.1}),
            ]
        )
        store.experiments.commit(lease, Change(trials=(TrialChange(trial_id, state="PAUSED"),)))
    assert {
        trial: row["error"] for trial, row in store.experiments.latest_validations(lease.experiment_id).items()
    } == dict.fromkeys(trials[:2], 0.75)
    best = store.experiments.best_of_trials(lease.experiment_id, "accuracy", False)
    assert best == {trial: float(trial) for trial in trials[:2]}
    assert store.experiments.best_validation(lease.experiment_id, "accuracy", False) == trials[1]
    assert store.experiments.best_of_trials(lease.experiment_id, "none", True) == {}
