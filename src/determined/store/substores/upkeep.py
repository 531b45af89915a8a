"""Upkeep of experiments and checkpoints: edit them after they were created, and delete them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from determined.errors import CheckpointInUse, InvalidExperimentException, NotFoundException, StoreError
from determined.store.databases.base import Database
from determined.store.experiment_records import Experiment, Lease
from determined.store.records import StoredCheckpoint
from determined.store.sql import columns, leases
from determined.store.sql import experiment_columns as rows
from determined.store.sql.checkpoints_in_use import needed, refuse_in_use
from determined.store.sql.columns import text
from determined.store.standalone_runs import is_finished_or_interrupted
from determined.store.states import CheckpointState

# Tables with a `trial_id`, in the order of deletion: a table comes before those that it refers to.
_OF_TRIALS = (
    "publishing",
    "checkpoint_uses",
    "requests",
    "logs",
    "samples",
    "metrics",
    "overwritten_metrics",
    "checkpoints",
    "uploads",
    "outputs",
    "attempts",
)
_OF_EXPERIMENTS = ("experiment_requests", "journal", "snapshots", "leases", "queue")


class RunDirectory(NamedTuple):
    """A directory in which the processes of an attempt kept their files."""

    host: str
    path: str
    was_copied: bool = False  # from the node of a cluster to the machine of the runner


class Upkeep:
    """Edits and deletions of experiments and checkpoints.

    Only deleting a search needs its lease. An unknown id raises a `StoreError` that names it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(
        self, experiment_id: int, *, name: str | None = None, description: str | None = None, notes: str | None = None
    ) -> None:
        """Set the name, description or notes of an experiment; None means unchanged."""
        given = {"name": name, "description": description, "notes": notes}
        with self._database.transaction():
            self._lock(experiment_id)
            for column, value in given.items():
                if value is not None:
                    self._set(experiment_id, column, text(value))

    def set_labels(self, experiment_id: int, labels: Sequence[str]) -> None:
        """Replace the labels of an experiment."""
        with self._database.transaction():
            self._lock(experiment_id)
            # `dict.fromkeys` removes duplicates and keeps the order in which the user gave the labels.
            self._set(experiment_id, "labels", json.dumps(list(dict.fromkeys(labels))))

    def change_labels(self, experiment_id: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> list[str]:
        """Add and remove labels of an experiment, and return all its labels. Idempotent."""
        with self._database.transaction():
            # Locked, because the labels are read, changed and written back.
            known = self._lock(experiment_id)
            labels = [label for label in dict.fromkeys([*known, *add]) if label not in remove]
            self._set(experiment_id, "labels", json.dumps(labels))
            return labels

    def change_config(self, experiment_id: int, block: str, values: Mapping[str, int | str]) -> None:
        """Set values in one block of a search's configuration, and request its runner to reload the configuration."""
        # Exclusive, because it adds a request: ids must become visible in order, see `Experiments.request`.
        with self._database.transaction(exclusive=True):
            self._lock(experiment_id)
            experiment = self._experiment(experiment_id)
            if experiment.is_standalone:
                raise InvalidExperimentException(
                    f"experiment {experiment_id} is a standalone run: it has no configuration to change"
                )
            present = experiment.config.get(block) or {}
            self._set(experiment_id, "config", json.dumps({**experiment.config, block: {**present, **values}}))
            self._database.execute(
                "INSERT INTO experiment_requests (experiment_id, trial_id, kind, created) VALUES (?, NULL, ?, ?)",
                [experiment_id, "reconfigure", time.time()],
            )

    def set_archived(self, experiment_id: int, archived: bool) -> None:
        """Archive or unarchive an experiment that has ended."""
        with self._database.transaction():
            self._lock(experiment_id)
            self._check_ended(self._experiment(experiment_id), "archived" if archived else "unarchived")
            self._set(experiment_id, "archived", int(archived))

    def checkpoint(self, checkpoint_id: str) -> StoredCheckpoint:
        """Return a checkpoint; raise NotFoundException if it does not exist."""
        found = self._database.execute(
            f"{columns.SELECT_CHECKPOINTS} WHERE c.uuid = ?",
            [text(checkpoint_id)],
        )
        if not found:
            if self._database.execute("SELECT 1 FROM outputs WHERE uuid = ?", [text(checkpoint_id)]):
                raise NotFoundException(
                    f"Checkpoint {checkpoint_id} not found: it is the output of a trial, not a checkpoint. It is "
                    "deleted with its experiment."
                )
            raise NotFoundException.of("checkpoint", checkpoint_id)
        return columns.checkpoint(found[0])

    def set_checkpoint_metadata(self, checkpoint_id: str, metadata: dict[str, Any]) -> None:
        """Replace the metadata of a checkpoint."""
        with self._database.transaction():
            self.checkpoint(checkpoint_id)
            self._database.execute(
                "UPDATE checkpoints SET metadata = ? WHERE uuid = ?", [json.dumps(metadata), text(checkpoint_id)]
            )

    def set_checkpoint_files(self, checkpoint_id: str, state: CheckpointState, resources: dict[str, int]) -> None:
        """Record the state of a checkpoint and the files that it still has."""
        with self._database.transaction():
            self.checkpoint(checkpoint_id)
            self._database.execute(
                "UPDATE checkpoints SET state = ?, resources = ? WHERE uuid = ?",
                [state, json.dumps(resources), text(checkpoint_id)],
            )

    def mark_deleted(self, checkpoint_ids: Sequence[str], *, partially: Sequence[str] = ()) -> None:
        """Mark checkpoints as deleted before their files are deleted, so that no process starts to use them.

        All are marked or none. Those in `partially` keep some of their files.

        Raise `CheckpointInUse` if a checkpoint is registered; if a trial starts from it that has not ended or that
        failed before it saved a checkpoint; if a trial that has not ended would resume from it; or if it was imported
        and its files belong to another store.
        """
        with self._database.transaction(exclusive=True):
            # Also registrations and uses are recorded in exclusive transactions, so none can be added before the
            # commit.
            whole = [self.checkpoint(checkpoint_id) for checkpoint_id in checkpoint_ids]
            in_part = [self.checkpoint(checkpoint_id) for checkpoint_id in partially]
            refuse_in_use(self._database, [*whole, *in_part])
            self._mark(whole, "DELETED")
            self._mark(in_part, "PARTIALLY_DELETED")

    def why_needed(self, checkpoints: Sequence[StoredCheckpoint], *, by_others_than: int = 0) -> dict[str, str]:
        """Return the checkpoints that could not be deleted now, by id, each with the reason; see `mark_deleted`.

        Uses by the experiment `by_others_than` do not count.
        """
        return needed(self._database, checkpoints, by_others_than=by_others_than)

    def mark_unused_deleted(self, checkpoint_ids: Sequence[str]) -> list[str]:
        """Mark those checkpoints as deleted that are not in use, and return their ids; see `mark_deleted`."""
        with self._database.transaction(exclusive=True):
            found = [self.checkpoint(checkpoint_id) for checkpoint_id in checkpoint_ids]
            spared = needed(self._database, found)
            unused = [checkpoint for checkpoint in found if checkpoint.checkpoint_id not in spared]
            self._mark(unused, "DELETED")
            return [checkpoint.checkpoint_id for checkpoint in unused]

    def mark_own_deleted(self, checkpoint_id: str) -> None:
        """Mark a checkpoint as deleted that its own program deletes; see `mark_deleted`.

        Unlike there, it may be the one that its trial would resume from. An unknown checkpoint is ignored.
        """
        with self._database.transaction(exclusive=True):
            if not self._database.execute("SELECT 1 FROM checkpoints WHERE uuid = ?", [text(checkpoint_id)]):
                return
            found = self.checkpoint(checkpoint_id)
            for reason in needed(self._database, [found], by_itself=False).values():
                raise CheckpointInUse(reason)
            self._mark([found], "DELETED")

    def mark_experiment_deleted(self, experiment_id: int) -> list[StoredCheckpoint]:
        """Mark all checkpoints of an experiment that has ended as deleted, and return them; see `mark_deleted`.

        The result includes those that were marked before, and imported ones, whose records are deleted but not their
        files.
        """
        with self._database.transaction(exclusive=True):
            self._check_ended(self._experiment(experiment_id), "deleted")
            found = self._database.execute(
                f"{columns.SELECT_CHECKPOINTS} "
                "JOIN trials t ON t.id = c.trial_id WHERE t.experiment_id = ? ORDER BY c.id",
                [experiment_id],
            )
            checkpoints = [columns.checkpoint(row) for row in found]
            refuse_in_use(self._database, checkpoints, by_others_than=experiment_id)
            self._mark(checkpoints, "DELETED")
            return checkpoints

    def run_directories(self, experiment_id: int) -> list[RunDirectory]:
        """Return the directories of an experiment's trials that no trial of another experiment used as well."""
        found = self._database.execute(
            "SELECT DISTINCT a.host, a.run_dir, t.nodes IS NOT NULL FROM attempts a JOIN trials t ON t.id = a.trial_id "
            "WHERE t.experiment_id = ? AND NOT EXISTS (SELECT 1 FROM attempts b JOIN trials u ON u.id = b.trial_id "
            "WHERE b.run_dir = a.run_dir AND u.experiment_id <> ?) ORDER BY a.host, a.run_dir",
            [experiment_id, experiment_id],
        )
        return [RunDirectory(host, path, bool(was_copied)) for host, path, was_copied in found]

    def delete_experiment(self, experiment_id: int, lease: Lease | None) -> None:
        """Delete all rows of an experiment in one transaction. A search needs its lease.

        Experiments and trials that name it, or a trial of it, as their parent lose that reference.
        """
        execute = self._database.execute
        with self._database.transaction(exclusive=True):
            experiment = self._experiment(experiment_id)
            if lease is not None:
                # Fencing: a process that lost the lease must not delete what another one is running.
                leases.beat(self._database, lease)
            elif not experiment.is_standalone:
                raise StoreError(f"experiment {experiment_id} can only be deleted by the process that holds its lease")
            self._check_ended(experiment, "deleted")
            own = "(SELECT id FROM trials WHERE experiment_id = ?)"
            its_checkpoints = f"(SELECT uuid FROM checkpoints WHERE trial_id IN {own})"
            # References from rows that stay are cleared before the rows they refer to are deleted, as foreign keys
            # require.
            execute(f"UPDATE trials SET parent_id = NULL WHERE parent_id IN {own}", [experiment_id])
            execute("UPDATE experiments SET parent_id = NULL WHERE parent_id = ?", [experiment_id])
            execute(f"DELETE FROM checkpoint_uses WHERE checkpoint IN {its_checkpoints}", [experiment_id])
            for table in _OF_EXPERIMENTS:
                execute(f"DELETE FROM {table} WHERE experiment_id = ?", [experiment_id])
            for table in _OF_TRIALS:
                execute(f"DELETE FROM {table} WHERE trial_id IN {own}", [experiment_id])
            execute("DELETE FROM trials WHERE experiment_id = ?", [experiment_id])
            execute("DELETE FROM experiments WHERE id = ?", [experiment_id])

    def _lock(self, experiment_id: int) -> list[str]:
        """Lock the row of an experiment and return its labels. Raise `NotFoundException` if it does not exist."""
        found = self._database.read_locked("SELECT labels FROM experiments WHERE id = ?", [experiment_id])
        if not found:
            raise NotFoundException.of("experiment", experiment_id)
        labels: list[str] = json.loads(found[0][0])
        return labels

    def _set(self, experiment_id: int, column: str, value: str | int) -> None:
        """Change a column of an experiment."""
        self._database.execute(f"UPDATE experiments SET {column} = ? WHERE id = ?", [value, experiment_id])

    def _experiment(self, experiment_id: int) -> Experiment:
        """Return an experiment; raise NotFoundException if it does not exist."""
        found = rows.read_experiments(self._database, "WHERE e.id = ?", [experiment_id])
        if not found:
            raise NotFoundException.of("experiment", experiment_id)
        return found[0]

    def _check_ended(self, experiment: Experiment, what: str) -> None:
        """Raise `InvalidExperimentException` unless the experiment has ended or is an interrupted standalone run."""
        if not is_finished_or_interrupted(experiment):
            raise InvalidExperimentException(
                f"experiment {experiment.id} is {experiment.state}: it can be {what} once it has ended; cancel or "
                "kill it first"
            )

    def _mark(self, checkpoints: Sequence[StoredCheckpoint], state: CheckpointState) -> None:
        """Set the state of checkpoints that are not marked as deleted yet."""
        for checkpoint in checkpoints:
            # A checkpoint whose deletion has begun must not become usable again, not even in part.
            if checkpoint.state != "DELETED":
                self._database.execute(
                    "UPDATE checkpoints SET state = ? WHERE uuid = ?", [state, checkpoint.checkpoint_id]
                )
