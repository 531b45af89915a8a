"""The contract of the store for the registry of models, tested on each kind of database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from determined.errors import CheckpointInUse, StoreError
from determined.store.open import open_store
from determined.store.rows import EndRow
from determined.store.store import Store
from determined.store.substores.registry import Edit
from tests.store.rows import begin, checkpoint

ODD = "a/../b\n'; DROP TABLE models; -- \N{SNOWMAN} 😀"


@pytest.fixture
def saved(store: Store) -> str:
    """Create a complete checkpoint of an ended run."""
    run = begin(store)
    row = checkpoint(run, 5)
    store.write([row, EndRow(run.trial_id, run.number, "completed", 5000.0, 1.0)])
    return row.checkpoint_id


class TestModels:
    def test_it_comes_back_as_it_was_given(self, store: Store) -> None:
        made = store.registry.create_model(
            ODD, description="for cats", labels=["b", ODD], metadata={"a": [1, None]}, owner="me"
        )
        assert store.registry.model(made.id) == store.registry.find_model(ODD) == made
        assert store.registry.models() == [made]
        assert (made.name, made.description, made.labels, made.metadata) == (
            ODD,
            "for cats",
            ["b", ODD],
            {"a": [1, None]},
        )
        assert (made.owner, made.notes, made.archived, made.versions) == ("me", "", False, 0)

    @pytest.mark.parametrize("name", ["", "  \n"])
    def test_a_name_is_needed(self, store: Store, name: str) -> None:
        with pytest.raises(StoreError, match="needs a name"):
            store.registry.create_model(name)

    def test_a_name_can_be_taken_once(self, store: Store) -> None:
        first, second = store.registry.create_model("net"), store.registry.create_model("other")
        with pytest.raises(StoreError, match=f"named 'net' already: its id is {first.id}"):
            store.registry.create_model("net")
        with pytest.raises(StoreError, match="already"):
            store.registry.edit_model(second.id, Edit(name="net"))
        assert store.registry.edit_model(first.id, Edit(name="net")).name == "net"

    def test_edits(self, store: Store) -> None:
        made = store.registry.create_model("net", metadata={"a": 1, "b": 2})
        edit = Edit("new", "described", "noted", ["x"], True, {"c": 3}, ["a", "unknown"])
        edited = store.registry.edit_model(made.id, edit)
        assert (edited.name, edited.description, edited.notes, edited.labels) == ("new", "described", "noted", ["x"])
        assert (edited.archived, edited.metadata) == (True, {"b": 2, "c": 3})
        assert edited.updated >= made.updated
        unchanged = store.registry.edit_model(made.id, Edit())
        assert unchanged.metadata == {"b": 2, "c": 3}
        assert unchanged.name == "new"

    def test_what_is_not_there_is_named(self, store: Store) -> None:
        assert store.registry.find_model("none") is None
        for call in (store.registry.model, store.registry.delete_model):
            with pytest.raises(StoreError, match="Model 77 not found"):
                call(77)
        made = store.registry.create_model("net")
        with pytest.raises(StoreError, match="Version 3 of model 'net' not found"):
            store.registry.edit_version(made.id, 3, Edit(notes="x"))
        with pytest.raises(StoreError, match=f"Checkpoint {'x' * 5}"):
            store.registry.register(made.id, "xxxxx")


class TestVersions:
    def test_numbers_are_never_given_twice(self, store: Store, saved: str) -> None:
        model = store.registry.create_model("net")
        assert [store.registry.register(model.id, saved).number for _ in range(3)] == [1, 2, 3]
        store.registry.delete_version(model.id, 3)
        assert store.registry.register(model.id, saved).number == 4
        assert [version.number for version in store.registry.versions(model.id)] == [4, 2, 1]
        assert store.registry.model(model.id).versions == 3

    def test_edits(self, store: Store, saved: str) -> None:
        model = store.registry.create_model("net")
        store.registry.register(model.id, saved)
        edited = store.registry.edit_version(model.id, 1, Edit("best", None, ODD, ["l"], None, {"k": 1}))
        assert store.registry.versions(model.id) == [edited]
        assert (edited.name, edited.notes, edited.labels, edited.metadata) == ("best", ODD, ["l"], {"k": 1})
        assert (edited.checkpoint, edited.model_id) == (saved, model.id)

    def test_only_a_complete_checkpoint_and_a_model_that_is_not_archived(self, store: Store, saved: str) -> None:
        model = store.registry.create_model("net")
        store.registry.edit_model(model.id, Edit(archived=True))
        with pytest.raises(StoreError, match="'net' is archived"):
            store.registry.register(model.id, saved)
        store.registry.edit_model(model.id, Edit(archived=False))
        store.upkeep.mark_deleted([], partially=[saved])
        with pytest.raises(StoreError, match=f"{saved} is PARTIALLY_DELETED: only a complete one"):
            store.registry.register(model.id, saved)
        assert store.registry.versions(model.id) == []

    def test_a_registered_checkpoint_cannot_be_deleted(self, store: Store, saved: str) -> None:
        model = store.registry.create_model("net")
        store.registry.register(model.id, saved)
        (experiment,) = store.experiments.list()
        assert store.registry.registered(experiment.id) == {saved}
        for call in (
            lambda: store.upkeep.mark_deleted([saved]),
            lambda: store.upkeep.mark_experiment_deleted(experiment.id),
        ):
            with pytest.raises(CheckpointInUse, match=f"{saved} is registered as version 1 of model 'net'"):
                call()
        with pytest.raises(StoreError):  # the database itself rejects it
            store.upkeep.delete_experiment(experiment.id, None)
        assert store.upkeep.checkpoint(saved).state == "ACTIVE"
        store.registry.delete_model(model.id)
        assert store.registry.registered(experiment.id) == set()
        store.upkeep.mark_deleted([saved])
        assert store.upkeep.checkpoint(saved).state == "DELETED"

    def test_registering_and_deleting_at_once_has_one_winner(self, store: Store, place: str) -> None:
        run = begin(store)
        model = store.registry.create_model("net")
        for step in range(8):
            row = checkpoint(run, step)
            store.write([row])
            done = both_at_once(
                place,
                partial(register, model.id, row.checkpoint_id),
                partial(mark_deleted, row.checkpoint_id),
            )
            state = store.upkeep.checkpoint(row.checkpoint_id).state
            assert (done, state) in (([0], "ACTIVE"), ([1], "DELETED"))


def register(model_id: int, uuid: str, own: Store) -> None:
    own.registry.register(model_id, uuid)


def mark_deleted(uuid: str, own: Store) -> None:
    own.upkeep.mark_deleted([uuid])


def both_at_once(place: str, *calls: Callable[[Store], object]) -> list[int]:
    """Call both at once, each with a separate connection; return which of them succeeded."""
    done: list[int] = []
    together = threading.Barrier(len(calls))

    def attempt(number: int) -> None:
        own = open_store(place)
        try:
            together.wait()
            calls[number](own)
            done.append(number)
        except (CheckpointInUse, StoreError):
            pass
        finally:
            own.close()

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done
