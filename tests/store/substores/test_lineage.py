"""The contract of the store about which runs used which checkpoints, tested on each kind of database."""

from __future__ import annotations

import pytest

from determined.errors import StoreError
from determined.store.rows import EndRow
from determined.store.store import Store
from tests.store.rows import begin, checkpoint


def run_with_checkpoint(store: Store) -> tuple[int, int, str]:
    """Create an ended run with a checkpoint; return its experiment, its trial and its checkpoint."""
    run = begin(store)
    row = checkpoint(run, 5)
    store.write([row, EndRow(run.trial_id, run.number, "completed", 5000.0, 1.0)])
    return run.experiment_id, run.trial_id, row.checkpoint_id


def test_uses_of_a_checkpoint_and_of_a_version(store: Store) -> None:
    _, _, uuid = run_with_checkpoint(store)
    model = store.registry.create_model("net")
    version = store.registry.register(model.id, uuid)
    assert store.lineage.users_of_checkpoint(uuid) == store.lineage.users_of_version(model.id, version.number) == []

    (_, first, _), (_, second, _) = run_with_checkpoint(store), run_with_checkpoint(store)
    store.lineage.record_use(first, uuid)
    store.lineage.record_use(second, uuid, (model.id, version.number))
    store.lineage.record_use(second, uuid)  # what is recorded already is kept
    assert store.lineage.users_of_checkpoint(uuid) == [first, second]
    assert store.lineage.users_of_version(model.id, version.number) == [second]
    store.lineage.record_use(first, uuid, (model.id, version.number))
    assert store.lineage.users_of_version(model.id, version.number) == [first, second]

    store.registry.delete_version(model.id, version.number)
    assert store.lineage.users_of_checkpoint(uuid) == [first, second], "the checkpoint was used all the same"
    again = store.registry.register(model.id, uuid)
    store.lineage.record_use(first, uuid, (model.id, again.number))
    store.registry.delete_model(model.id)
    assert store.lineage.users_of_checkpoint(uuid) == [first, second]


def test_what_is_deleted_takes_its_uses_along(store: Store) -> None:
    experiment, _, uuid = run_with_checkpoint(store)
    user_experiment, user, _ = run_with_checkpoint(store)
    _, other_user, _ = run_with_checkpoint(store)
    store.lineage.record_use(user, uuid)
    store.lineage.record_use(other_user, uuid)
    store.upkeep.delete_experiment(user_experiment, None)
    assert store.lineage.users_of_checkpoint(uuid) == [other_user]
    store.upkeep.delete_experiment(experiment, None)
    with pytest.raises(StoreError, match=f"Checkpoint {uuid} not found"):
        store.lineage.users_of_checkpoint(uuid)


def test_what_is_not_there_is_named(store: Store) -> None:
    _, trial, uuid = run_with_checkpoint(store)
    for call, name in (
        (lambda: store.lineage.record_use(99, uuid), "trial 99"),
        (lambda: store.lineage.record_use(trial, "../x"), r"checkpoint \.\./x"),
        (lambda: store.lineage.record_use(trial, uuid, (3, 1)), "version 1 of model 3"),
        (lambda: store.lineage.users_of_version(3, 1), "version 1 of model 3"),
    ):
        with pytest.raises(StoreError, match=f"(?i){name} not found"):
            call()
    assert store.lineage.users_of_checkpoint(uuid) == []
