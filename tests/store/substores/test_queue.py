"""The contract of the store for the queue, tested on each kind of database."""

from __future__ import annotations

import threading

import pytest

from determined.errors import StoreError
from determined.store.experiment_changes import Change, ExperimentChange
from determined.store.open import open_store
from determined.store.store import Store
from determined.store.substores.queue import NewEntry
from tests.store.experiments import held_experiment, new_experiment

ODD = "a/../b\n'; DROP TABLE queue; -- \N{SNOWMAN} 😀"


def new(store: Store) -> int:
    return store.experiments.create(new_experiment())


def test_it_comes_back_as_it_was_given(store: Store) -> None:
    experiment = new(store)
    added = store.queue.add(NewEntry(experiment, ODD, "me", 7, slots=3, max_trials=9))
    assert store.queue.find(experiment) == added
    assert store.queue.entries(ODD, "me") == [added]
    assert store.queue.lengths() == {(ODD, "me"): 1}
    assert (added.experiment_id, added.host, added.owner) == (experiment, ODD, "me")
    assert (added.priority, added.slots, added.max_trials) == (7, 3, 9)
    assert store.queue.entries(ODD, "another") == store.queue.entries("another", "me") == []


def test_by_priority_and_then_in_the_order_of_their_coming(store: Store) -> None:
    first, second, third = (new(store) for _ in range(3))
    for experiment in (first, second, third):
        store.queue.add(NewEntry(experiment, "here", "me"))

    def order() -> list[int]:
        return [entry.experiment_id for entry in store.queue.entries("here", "me")]

    assert order() == [first, second, third]
    assert store.queue.set_priority(third, 1).priority == 1
    assert order() == [third, first, second]
    store.queue.set_priority(third, 42)
    assert order() == [first, second, third]
    assert store.queue.remove(first)
    assert not store.queue.remove(first)
    store.queue.add(NewEntry(first, "here", "me"))
    assert order() == [second, third, first], "who comes again stands at the end"


def test_what_cannot_be_done(store: Store) -> None:
    experiment = new(store)
    with pytest.raises(StoreError, match=f"experiment {experiment} is not in the queue"):
        store.queue.set_priority(experiment, 3)
    store.queue.add(NewEntry(experiment, "here", "me", 8))
    with pytest.raises(StoreError, match=f"experiment {experiment} is in the queue of me on here already.*priority 8"):
        store.queue.add(NewEntry(experiment, "there", "you", 9))
    for priority in (0, 100):
        with pytest.raises(StoreError, match=f"from 1 \\(highest\\) to 99, not {priority}"):
            store.queue.set_priority(experiment, priority)
    with pytest.raises(StoreError, match="Experiment 999 not found"):
        store.queue.add(NewEntry(999, "here", "me"))
    with pytest.raises(StoreError, match="Experiment 999 not found"):
        store.queue.set_priority(999, 3)
    assert [entry.priority for entry in store.queue.entries("here", "me")] == [8]


def test_of_many_processes_that_add_it_at_once_one_succeeds(store: Store, place: str) -> None:
    experiment, answers = new(store), list[str]()

    def add(number: int) -> None:
        own = open_store(place)
        try:
            own.queue.add(NewEntry(experiment, "here", f"user {number}"))
            answers.append("added")
        except StoreError:
            answers.append("refused")
        finally:
            own.close()

    threads = [threading.Thread(target=add, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["added"] + ["refused"] * 5


def test_an_experiment_that_is_deleted_leaves_it(store: Store) -> None:
    lease = held_experiment(store)
    store.queue.add(NewEntry(lease.experiment_id, "here", "me"))
    store.experiments.commit(lease, Change(experiment=ExperimentChange(state="CANCELED", ended=1.0)))
    store.upkeep.delete_experiment(lease.experiment_id, lease)
    assert store.queue.entries("here", "me") == []
