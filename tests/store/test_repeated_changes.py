"""The answer of the database is lost: the change is written again, and is stored once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from determined.errors import StoreUnavailable
from determined.store.experiment_changes import (
    UNCHANGED,
    Change,
    ExperimentChange,
    TrialChange,
)
from determined.store.experiment_records import JournalEntry, Lease
from determined.store.open import open_store
from determined.store.store import Store
from determined.store.workers.writer import Writer
from tests.helpers.postgres import PostgresServer
from tests.store.experiments import held_experiment, new_trial, with_trials

STATES = ("QUEUED", "RUNNING", "PAUSED", "STOPPED_EARLY", "ERROR")
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
OBJECT = st.dictionaries(st.text(max_size=3), PLAIN, max_size=3)


@st.composite
def histories(draw: st.DrawFn) -> list[Callable[[list[int]], Change]]:
    """Return changes in their order, each created when the ids of the trials so far are known."""
    return [draw(changes(number)) for number in range(draw(st.integers(1, 5)))]


@st.composite
def changes(draw: st.DrawFn, number: int) -> Callable[[list[int]], Change]:
    journal = tuple(
        JournalEntry(10 * number + i + 1, draw(OBJECT), draw(st.lists(OBJECT, max_size=2)))
        for i in range(draw(st.integers(0, 2)))
    )
    new_trials = tuple(new_trial(3 * number + i, hparams=draw(OBJECT)) for i in range(draw(st.integers(0, 3))))
    snapshot = draw(st.none() | OBJECT)
    touched = draw(st.lists(st.tuples(st.integers(0, 9), trial_values()), max_size=3))
    asked = draw(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["pause", "stop", "kill"])), max_size=3))
    experiment = draw(
        st.none()
        | st.fixed_dictionaries(
            {
                "state": st.sampled_from(["ACTIVE", "PAUSED", "COMPLETED"]),
                "progress": st.floats(0, 1),
                "ended": st.none() | st.floats(0, 9),
                "max_trials": st.none() | st.integers(1, 9),
            }
        ).map(lambda values: ExperimentChange(**cast(dict[str, Any], values)))
    )

    def change(ids: list[int]) -> Change:
        return Change(
            journal,
            snapshot,
            new_trials,
            tuple(TrialChange(ids[which % len(ids)], **values) for which, values in touched if ids),
            tuple((ids[which % len(ids)], kind) for which, kind in asked if ids),  # type: ignore[misc]
            experiment,
        )

    return change


def trial_values() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "state": st.sampled_from(STATES),
            "goal": st.none() | st.just(UNCHANGED) | st.floats(0, 9),
            "allocation": st.sampled_from("abc"),
            "runs": st.integers(0, 9),
            "ended": st.floats(0, 9),
            "reason": st.text(max_size=3),
        },
    )


def everything(store: Store, lease: Lease) -> list[Any]:
    """Return all stored rows, without what only distinguishes two equal experiments."""
    experiments, experiment_id = store.experiments, lease.experiment_id
    experiment, trials = experiments.get(experiment_id), experiments.trials(experiment_id)
    return [
        {**experiment._asdict(), "id": 0, "key": "", "holder": None},
        [{**trial._asdict(), "id": 0, "experiment_id": 0} for trial in trials],
        experiments.journal(experiment_id),
        experiments.snapshot(experiment_id),
        [[request.kind for request in store.requests(trial.id)] for trial in trials],
        [experiments.decision(trial.id)[:2] for trial in trials],
    ]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories())
def test_each_change_twice_is_each_change_once(store: Store, history: list[Callable[[list[int]], Change]]) -> None:
    once, twice = held_experiment(store), held_experiment(store)
    ids: dict[Lease, list[int]] = {once: [], twice: []}
    for change in history:
        ids[once] += store.experiments.commit(once, change(ids[once]))
        made = change(ids[twice])
        first, second = store.experiments.commit(twice, made), store.experiments.commit(twice, made)
        assert first == second
        ids[twice] += first
        assert everything(store, once) == everything(store, twice)


def lose_answers(store: Store, count: int) -> None:
    """Break the connection after the commit, for the next N commits."""
    database, left = store._database, [count]
    execute = database.execute

    def losing(statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        found = execute(statement, values)
        if statement == "COMMIT" and left[0]:
            left[0] -= 1
            if hasattr(database, "_disconnect"):
                database._disconnect()
            raise StoreUnavailable("the answer was lost")
        return found

    database.execute = losing  # type: ignore[method-assign]


def test_a_writer_repeats_what_was_not_answered(place: str, caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer(lambda: open_store(place), patience=30)
    lease, (trial_id, _) = writer.query(lambda store: with_trials(store, 2))
    change = Change(
        (JournalEntry(1, {"n": 1}, [{"a": 1}]),),
        {"state": 1},
        (new_trial(2), new_trial(3)),
        (TrialChange(trial_id, "RUNNING", allocation="a", runs=1),),
        ((trial_id, "stop"),),
        ExperimentChange(progress=0.5),
    )
    writer.query(lambda store: lose_answers(store, 2))
    ids = writer.query(lambda store: store.experiments.commit(lease, change))
    assert "the answer was lost" in caplog.text
    writer.close()
    store = open_store(place)
    assert [trial.id for trial in store.experiments.trials(lease.experiment_id)][2:] == ids
    assert len(store.experiments.journal(lease.experiment_id)) == 1
    assert [request.kind for request in store.requests(trial_id)] == ["stop"]
    store.close()


def test_a_server_that_is_stopped_again_and_again(postgres: PostgresServer) -> None:
    place = postgres.new_database()
    writer = Writer(lambda: open_store(place), patience=60)
    lease = writer.query(held_experiment)
    rounds = 60
    ids: list[int] = []

    def run() -> None:
        for number in range(rounds):
            change = Change((JournalEntry(number + 1, {"n": number}, []),), {"seen": number + 1}, (new_trial(number),))
            ids.extend(writer.query(lambda store, change=change: store.experiments.commit(lease, change)))  # type: ignore[misc]

    running = threading.Thread(target=run, daemon=True)
    running.start()
    for moment in (10, 25, 40):
        while running.is_alive() and len(ids) < moment:
            running.join(0.001)
        postgres.stop()
        postgres.start()
    running.join(60)
    assert len(ids) == rounds
    writer.close()
    store = open_store(place)
    trials = store.experiments.trials(lease.experiment_id)
    assert [trial.id for trial in trials] == ids
    assert [trial.number for trial in trials] == list(range(rounds))
    assert [entry.event for entry in store.experiments.journal(lease.experiment_id)] == [
        {"n": n} for n in range(rounds)
    ]
    assert store.experiments.snapshot(lease.experiment_id) == (rounds, {"seen": rounds})
    store.close()
