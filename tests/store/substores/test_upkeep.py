"""The contract of the store for changing and deleting experiments and checkpoints, on each kind of database."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest

from determined.errors import CheckpointInUse, InvalidExperimentException, LeaseLost, StoreError
from determined.store.experiment_changes import Change, ExperimentChange, TrialChange
from determined.store.experiment_records import JournalEntry
from determined.store.open import open_store
from determined.store.records import is_to_be_removed
from determined.store.rows import EndRow, LogRow
from determined.store.store import Store
from determined.store.substores.upkeep import RunDirectory
from tests.helpers.postgres import PostgresServer
from tests.helpers.waiting import wait_until
from tests.store.experiments import begin_managed, held_experiment, new_experiment, new_trial, with_trials
from tests.store.rows import alive, begin, checkpoint, metric


def ended_standalone_run(store: Store, **arguments: object) -> tuple[int, str]:
    """Create an ended run with a checkpoint; return its experiment and the checkpoint."""
    run = begin(store, **arguments)
    row = checkpoint(run, 5)
    store.write([row, EndRow(run.trial_id, run.number, "completed", 5000.0, 1.0)])
    return run.experiment_id, row.checkpoint_id


class TestExperiments:
    def test_describing(self, store: Store) -> None:
        experiment_id = store.experiments.create(new_experiment())
        store.upkeep.describe(experiment_id, name="new\0", notes="n")
        found = store.experiments.get(experiment_id)
        assert (found.name, found.description, found.notes) == ("new\\x00", "what it is for", "n")
        store.upkeep.describe(experiment_id, description="")
        assert store.experiments.get(experiment_id).description == ""

    def test_a_standalone_run_can_be_renamed(self, store: Store) -> None:
        experiment_id = begin(store).experiment_id
        assert store.experiments.get(experiment_id).name == "mine"
        store.upkeep.describe(experiment_id, name="ours")
        assert store.experiments.get(experiment_id).name == "ours"

    def test_labels(self, store: Store) -> None:
        experiment_id = store.experiments.create(new_experiment(labels=["one", "two"]))
        assert store.upkeep.change_labels(experiment_id, add=["three", "one"]) == ["one", "two", "three"]
        assert store.upkeep.change_labels(experiment_id, remove=["two", "none"]) == ["one", "three"]
        assert store.experiments.get(experiment_id).labels == ["one", "three"]
        store.upkeep.set_labels(experiment_id, ["x", "x"])
        assert store.experiments.get(experiment_id).labels == ["x"]

    def test_a_block_of_the_configuration_is_changed_and_the_runner_notified(self, store: Store) -> None:
        config = {"searcher": {"name": "random"}, "resources": {"slots_per_trial": 2}}
        experiment_id = store.experiments.create(new_experiment(config=config))
        store.upkeep.change_config(experiment_id, "resources", {"max_slots": 4})
        store.upkeep.change_config(experiment_id, "checkpoint_storage", {"save_trial_best": 0})
        found = store.experiments.get(experiment_id)
        assert found.config == {
            "searcher": {"name": "random"},
            "resources": {"slots_per_trial": 2, "max_slots": 4},
            "checkpoint_storage": {"save_trial_best": 0},
        }
        requests = store.experiments.requests(experiment_id)
        assert [(request.kind, request.trial_id) for request in requests] == [("reconfigure", None)] * 2
        by_hand = begin(store).experiment_id
        with pytest.raises(InvalidExperimentException, match="is a standalone run"):
            store.upkeep.change_config(by_hand, "resources", {"max_slots": 4})

    def test_a_change_of_the_configuration_is_not_requested_before_an_earlier_request(
        self, postgres: PostgresServer
    ) -> None:
        """A runner reads requests above the last id that it has, so a smaller id that appears later would be lost."""
        place = postgres.new_database()
        waiting = (
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        with closing(open_store(place)) as store, closing(open_store(place)) as reader:
            experiment_id = store.experiments.create(new_experiment())

            def change() -> None:
                with closing(open_store(place)) as own:
                    own.upkeep.change_config(experiment_id, "resources", {"max_slots": 4})

            changing = threading.Thread(target=change)
            with store._database.transaction(exclusive=True):
                store._database.execute(
                    "INSERT INTO experiment_requests (experiment_id, kind, created) VALUES (?, 'pause', 0)",
                    [experiment_id],
                )
                changing.start()
                wait_until(lambda: not changing.is_alive() or reader._database.execute(waiting))
                assert reader.experiments.requests(experiment_id) == []
            changing.join()
            found = [request.kind for request in reader.experiments.requests(experiment_id)]
            assert found == ["pause", "reconfigure"]

    def test_only_what_has_ended_is_put_away(self, store: Store) -> None:
        lease = held_experiment(store)
        with pytest.raises(InvalidExperimentException, match="is ACTIVE: it can be archived once it has ended"):
            store.upkeep.set_archived(lease.experiment_id, True)
        store.experiments.commit(lease, Change(experiment=ExperimentChange("ERROR", ended=1.0)))
        store.upkeep.set_archived(lease.experiment_id, True)
        assert store.experiments.list() == []
        store.upkeep.set_archived(lease.experiment_id, False)
        assert len(store.experiments.list()) == 1

    def test_what_is_not_there_is_named(self, store: Store) -> None:
        for call in (
            lambda: store.upkeep.describe(9, name="x"),
            lambda: store.upkeep.set_labels(9, []),
            lambda: store.upkeep.change_config(9, "resources", {"max_slots": 1}),
            lambda: store.upkeep.change_labels(9),
            lambda: store.upkeep.set_archived(9, True),
            lambda: store.upkeep.mark_experiment_deleted(9),
            lambda: store.upkeep.delete_experiment(9, None),
        ):
            with pytest.raises(StoreError, match="Experiment 9 not found"):
                call()
        with pytest.raises(StoreError, match=r"Checkpoint \.\./x not found"):
            store.upkeep.checkpoint("../x")


class TestCheckpoints:
    def test_changes(self, store: Store) -> None:
        _, uuid = ended_standalone_run(store)
        store.upkeep.set_checkpoint_metadata(uuid, {"steps_completed": 5, "mine": None})
        store.upkeep.set_checkpoint_files(uuid, "PARTIALLY_DELETED", {"a": 1})
        found = store.upkeep.checkpoint(uuid)
        assert (found.metadata, found.state, found.resources) == (
            {"steps_completed": 5, "mine": None},
            "PARTIALLY_DELETED",
            {"a": 1},
        )

    def test_all_or_none(self, store: Store) -> None:
        _, uuid = ended_standalone_run(store)
        with pytest.raises(StoreError, match="Checkpoint other not found"):
            store.upkeep.mark_deleted([uuid, "other"])
        assert store.upkeep.checkpoint(uuid).state == "ACTIVE"

    def test_the_newest_of_a_trial_that_has_not_ended_stays(self, store: Store) -> None:
        lease, (trial_id,) = with_trials(store, 1)
        run = begin_managed(store, lease, trial_id)
        old, new = checkpoint(run, 1), checkpoint(run, 2)
        store.write([old, new])
        store.upkeep.mark_deleted([old.checkpoint_id])
        with pytest.raises(CheckpointInUse, match=f"{new.checkpoint_id} is the newest of trial {trial_id}"):
            store.upkeep.mark_deleted([new.checkpoint_id])
        store.experiments.commit(lease, Change(trials=(TrialChange(trial_id, state="CANCELED", ended=9.0),)))
        store.upkeep.mark_deleted([new.checkpoint_id])

    def test_a_clean_up_deletes_only_unneeded_checkpoints(self, store: Store) -> None:
        lease, (trial_id,) = with_trials(store, 1)
        run = begin_managed(store, lease, trial_id)
        registered, surplus, newest = checkpoint(run, 1), checkpoint(run, 2), checkpoint(run, 3)
        store.write([registered, surplus, newest])
        model = store.registry.create_model("net")
        store.registry.register(model.id, registered.checkpoint_id)
        assert store.upkeep.mark_unused_deleted(
            [registered.checkpoint_id, surplus.checkpoint_id, newest.checkpoint_id]
        ) == [surplus.checkpoint_id]
        with pytest.raises(
            StoreError, match=f"{surplus.checkpoint_id} is DELETED: only a complete one can be registered"
        ):
            store.registry.register(model.id, surplus.checkpoint_id)
        assert is_to_be_removed(store.upkeep.checkpoint(surplus.checkpoint_id))
        store.set_checkpoint_deleted(surplus.checkpoint_id)
        assert not is_to_be_removed(store.upkeep.checkpoint(surplus.checkpoint_id))
        assert [row.state for row in store.checkpoints(trial_id)] == ["ACTIVE", "DELETED", "ACTIVE"]

    def test_what_its_own_program_deletes(self, store: Store) -> None:
        run = begin(store, process=alive())
        registered, newest = checkpoint(run, 1), checkpoint(run, 2)
        store.write([registered, newest])
        model = store.registry.create_model("net")
        store.registry.register(model.id, registered.checkpoint_id)
        with pytest.raises(
            CheckpointInUse, match=f"{registered.checkpoint_id} is registered as version 1 of model 'net'"
        ):
            store.upkeep.mark_own_deleted(registered.checkpoint_id)
        store.upkeep.mark_own_deleted(newest.checkpoint_id)
        store.upkeep.mark_own_deleted("../never stored here")
        assert [row.state for row in store.checkpoints(run.trial_id)] == ["DELETED", "ACTIVE"]

    def test_the_newest_of_an_active_standalone_run_is_kept(self, store: Store) -> None:
        run = begin(store, process=alive())
        row = checkpoint(run, 1)
        store.write([row])
        with pytest.raises(CheckpointInUse, match="newest of trial"):
            store.upkeep.mark_deleted([row.checkpoint_id])
        store.write([EndRow(run.trial_id, run.number, "completed", 5000.0, 1.0)])
        store.upkeep.mark_deleted([row.checkpoint_id])

    def test_what_other_trials_begin_with_stays(self, store: Store) -> None:
        experiment_id, uuid = ended_standalone_run(store)
        lease = held_experiment(store)
        (trial_id,) = store.experiments.commit(lease, Change(new_trials=(new_trial(0, source_checkpoint_id=uuid),)))
        for call in (
            lambda: store.upkeep.mark_deleted([uuid]),
            lambda: store.upkeep.mark_experiment_deleted(experiment_id),
        ):
            with pytest.raises(CheckpointInUse, match=f"what trial {trial_id} begins with"):
                call()
        store.experiments.commit(lease, Change(trials=(TrialChange(trial_id, state="COMPLETED", ended=9.0),)))
        store.upkeep.mark_deleted([uuid])

    def test_what_a_search_will_begin_with_stays(self, store: Store) -> None:
        _, uuid = ended_standalone_run(store)
        config = {"searcher": {"name": "random", "metric": "error", "source_checkpoint_uuid": uuid}}
        other = store.experiments.create(new_experiment(config=config, paused=True))
        with pytest.raises(CheckpointInUse, match=f"trials of experiment {other} begin with"):
            store.upkeep.mark_deleted([uuid])

    @pytest.mark.parametrize("state", ["ERROR", "CANCELED"])
    def test_what_a_failed_trial_would_begin_with_again_stays(self, store: Store, state: Any) -> None:
        experiment_id, uuid = ended_standalone_run(store)
        lease, (other,) = with_trials(store, 1)
        trial_id = store.experiments.commit(lease, Change(new_trials=(new_trial(1, source_checkpoint_id=uuid),)))[-1]
        ended = tuple(TrialChange(one, state=state, ended=9.0) for one in (other, trial_id))
        store.experiments.commit(lease, Change(trials=ended, experiment=ExperimentChange(state, ended=9.0)))
        words = f"trial {trial_id} begins with: it ended as {state} without .*delete experiment {lease.experiment_id} "
        for call in (
            lambda: store.upkeep.mark_deleted([uuid]),
            lambda: store.upkeep.mark_experiment_deleted(experiment_id),
        ):
            with pytest.raises(CheckpointInUse, match=words):
                call()
        assert store.upkeep.mark_unused_deleted([uuid]) == []
        store.upkeep.delete_experiment(lease.experiment_id, lease)
        store.upkeep.mark_deleted([uuid])

    def test_a_failed_trial_with_its_own_checkpoint_needs_no_other(self, store: Store) -> None:
        _, uuid = ended_standalone_run(store)
        lease = held_experiment(store)
        (trial_id,) = store.experiments.commit(lease, Change(new_trials=(new_trial(0, source_checkpoint_id=uuid),)))
        run = begin_managed(store, lease, trial_id)
        store.write([checkpoint(run, 1)])
        store.experiments.commit(lease, Change(trials=(TrialChange(trial_id, state="ERROR", ended=9.0),)))
        store.upkeep.mark_deleted([uuid])

    def test_what_a_failed_search_would_begin_with_again_stays(self, store: Store) -> None:
        experiment_id, uuid = ended_standalone_run(store)
        config = {"searcher": {"name": "random", "metric": "error", "source_checkpoint_uuid": uuid}}
        lease = held_experiment(store, config=config)
        store.experiments.commit(lease, Change(experiment=ExperimentChange("ERROR", ended=9.0)))
        with pytest.raises(CheckpointInUse, match=f"experiment {lease.experiment_id} begin with: it ended as ERROR"):
            store.upkeep.mark_experiment_deleted(experiment_id)
        store.experiments.commit(lease, Change(experiment=ExperimentChange("COMPLETED", ended=9.0)))
        store.upkeep.mark_experiment_deleted(experiment_id)

    def test_the_newest_of_an_interrupted_run_stays_until_that_is_canceled(self, store: Store) -> None:
        begun = begin(store)
        old, new = checkpoint(begun, 5, "old"), checkpoint(begun, 9, "new")
        store.write([old, new, EndRow(begun.trial_id, 1, "stopped", 9.0, 1.0)])
        with pytest.raises(CheckpointInUse, match=r"new is the newest of trial .* cancel the experiment first"):
            store.upkeep.mark_deleted(["new"])
        store.upkeep.mark_deleted(["old"])
        store.experiments.cancel_paused(begun.experiment_id)
        store.upkeep.mark_deleted(["new"])


class TestDeletion:
    def test_every_row_goes_and_nothing_else(self, store: Store) -> None:
        kept, kept_uuid = ended_standalone_run(store)
        lease, trials = with_trials(store, 2)
        run = begin_managed(store, lease, trials[0])
        row = checkpoint(run, 5)
        log = LogRow(trials[0], run.number, 0, 0, "stdout", "hello", 1.0)
        store.write([row, log, metric(run, "validation", 5, {"error": 1}), metric(run, "cpu", None, {"x": 1})])
        store.experiments.request(lease.experiment_id, "kill", trials[1])
        child = store.experiments.create(new_experiment(parent_id=lease.experiment_id))
        change = Change(
            journal=(JournalEntry(1, {"event": "start"}, []),),
            snapshot={"x": 1},
            requests=((trials[0], "kill"),),
            trials=tuple(TrialChange(trial_id, state="CANCELED", ended=9.0) for trial_id in trials),
        )
        store.experiments.commit(lease, change)
        continued = begin(store, checkpoint=row.checkpoint_id, steps=5)  # a standalone run from its checkpoint

        with pytest.raises(InvalidExperimentException, match="is ACTIVE: it can be deleted once it has ended"):
            store.upkeep.mark_experiment_deleted(lease.experiment_id)
        store.experiments.commit(lease, Change(experiment=ExperimentChange("CANCELED", ended=9.0)))
        assert [found.checkpoint_id for found in store.upkeep.mark_experiment_deleted(lease.experiment_id)] == [
            row.checkpoint_id
        ]
        assert [found.state for found in store.upkeep.mark_experiment_deleted(lease.experiment_id)] == ["DELETED"]
        store.upkeep.delete_experiment(lease.experiment_id, lease)

        assert [found.id for found in store.experiments.list()] == [continued.experiment_id, child, kept]
        assert store.experiments.get(child).parent_id is None
        assert [run.parent_id for run in store.runs()] == [None, None]
        assert store.upkeep.checkpoint(kept_uuid).state == "ACTIVE"
        database = store._database
        for table in ("metrics", "samples", "logs", "requests", "experiment_requests", "journal", "snapshots"):
            assert database.execute(f"SELECT count(*) FROM {table}") == [(0,)], table
        for table, left in (("trials", 2), ("attempts", 2), ("checkpoints", 1), ("leases", 1), ("experiments", 3)):
            assert database.execute(f"SELECT count(*) FROM {table}") == [(left,)], table

    def test_a_search_is_deleted_by_its_holder_alone(self, store: Store) -> None:
        lease = held_experiment(store)
        store.experiments.commit(lease, Change(experiment=ExperimentChange("COMPLETED", ended=9.0)))
        with pytest.raises(StoreError, match="the process that holds its lease"):
            store.upkeep.delete_experiment(lease.experiment_id, None)
        newer = store.experiments.acquire(lease.experiment_id, alive(), watch_seconds=0.0)
        with pytest.raises(LeaseLost):
            store.upkeep.delete_experiment(lease.experiment_id, lease)
        assert len(store.experiments.list()) == 1
        store.upkeep.delete_experiment(lease.experiment_id, newer)
        assert store.experiments.list() == []

    def test_directories_of_runs_that_no_other_experiment_shares(self, store: Store) -> None:
        experiment_id, _ = ended_standalone_run(store)
        assert store.upkeep.run_directories(experiment_id) == [RunDirectory("another-host", "/runs/1")]
        ended_standalone_run(store)  # in the same directory
        assert store.upkeep.run_directories(experiment_id) == []
