"""The `Upkeep` interface: edit experiments and checkpoints after they were created, and delete them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from determined.store.experiment_records import Lease
from determined.store.records import Checkpoint
from determined.store.states import CheckpointState


class RunDirectory(NamedTuple):
    """A directory in which the processes of an attempt kept their files."""

    host: str
    path: str


class Upkeep(Protocol):
    """Edits and deletions of experiments and checkpoints.

    Only deleting a search needs its lease. An unknown id raises a `StoreError` that names it.
    """

    def describe(
        self, experiment_id: int, *, name: str | None = None, description: str | None = None, notes: str | None = None
    ) -> None:
        """Set the name, description or notes of an experiment; None means unchanged."""
        ...

    def set_labels(self, experiment_id: int, labels: Sequence[str]) -> None: ...

    def change_labels(self, experiment_id: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> list[str]:
        """Add and remove labels of an experiment, and return all its labels. Idempotent."""
        ...

    def change_config(self, experiment_id: int, block: str, values: Mapping[str, int]) -> None:
        """Set values in one block of a search's configuration, and request its runner to reload the configuration."""
        ...

    def set_archived(self, experiment_id: int, archived: bool) -> None:
        """Archive or unarchive an experiment that has ended."""
        ...

    def checkpoint(self, uuid: str) -> Checkpoint: ...

    def set_checkpoint_metadata(self, uuid: str, metadata: dict[str, Any]) -> None: ...

    def set_checkpoint_files(self, uuid: str, state: CheckpointState, resources: dict[str, int]) -> None:
        """Record the state of a checkpoint and the files that it still has."""
        ...

    def condemn(self, uuids: Sequence[str], *, partially: Sequence[str] = ()) -> None:
        """Mark checkpoints as deleted before their files are deleted, so that no process starts to use them.

        All are marked or none. Those in `partially` keep some of their files.

        Raise `CheckpointInUse` if a checkpoint is registered; if a trial starts from it that has not ended or that
        failed before it saved a checkpoint; if a trial that has not ended would resume from it; or if it was imported
        and its files belong to another store.
        """
        ...

    def condemn_unused(self, uuids: Sequence[str]) -> list[str]:
        """Mark those checkpoints as deleted that are not in use, and return their ids; see `condemn`."""
        ...

    def condemn_own(self, uuid: str) -> None:
        """Mark a checkpoint as deleted that its own program deletes; see `condemn`.

        Unlike there, it may be the one that its trial would resume from. An unknown checkpoint is ignored.
        """
        ...

    def condemn_experiment(self, experiment_id: int) -> list[Checkpoint]:
        """Mark all checkpoints of an experiment that has ended as deleted, and return them; see `condemn`.

        The result includes those that were marked before, and imported ones, whose records are deleted but not their
        files.
        """
        ...

    def run_directories(self, experiment_id: int) -> list[RunDirectory]:
        """Return the directories of an experiment's trials that no trial of another experiment used as well."""
        ...

    def delete_experiment(self, experiment_id: int, lease: Lease | None) -> None:
        """Delete all rows of an experiment in one transaction. A search needs its lease.

        Experiments and trials that name it, or a trial of it, as their parent lose that reference.
        """
        ...
