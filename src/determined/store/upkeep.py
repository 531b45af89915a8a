"""What people change about experiments and checkpoints that others run or made, and how these end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from determined.store.experiment_records import Lease
from determined.store.records import Checkpoint, CheckpointState


class RunDirectory(NamedTuple):
    """Where the processes of an attempt kept their files."""

    host: str
    path: str


class Upkeep(Protocol):
    """No lease is needed but to delete. An id that is not there is a `StoreError` that names it."""

    def describe(
        self, experiment_id: int, *, name: str | None = None, description: str | None = None, notes: str | None = None
    ) -> None:
        """None means unchanged."""
        ...

    def set_labels(self, experiment_id: int, labels: Sequence[str]) -> None: ...

    def change_labels(self, experiment_id: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> list[str]:
        """Returns all that it has then; one that is there, or is not, already is no matter."""
        ...

    def change_config(self, experiment_id: int, block: str, values: Mapping[str, int]) -> None:
        """Set values of one block of the configuration of a search; its runner is told to look at it again."""
        ...

    def set_archived(self, experiment_id: int, archived: bool) -> None:
        """Only of experiments that have ended."""
        ...

    def checkpoint(self, uuid: str) -> Checkpoint: ...

    def set_checkpoint_metadata(self, uuid: str, metadata: dict[str, Any]) -> None: ...

    def set_checkpoint_files(self, uuid: str, state: CheckpointState, resources: dict[str, int]) -> None:
        """What is left of it."""
        ...

    def condemn(self, uuids: Sequence[str], *, partially: Sequence[str] = ()) -> None:
        """Mark checkpoints as deleted, all or none, before their files go: from now on nobody can begin to use them.

        Those in `partially` keep some of their files.

        `CheckpointInUse` when one is registered; when a trial begins with it that has not ended, or that failed before
        it had a checkpoint of its own; when a trial that has not ended would go on from it; when it was imported and
        its files belong to another store.
        """
        ...

    def condemn_unused(self, uuids: Sequence[str]) -> list[str]:
        """The same, but what is in use is passed over; returns the others."""
        ...

    def condemn_own(self, uuid: str) -> None:
        """The same for one that its own program deletes: it may be what that would go on from. Others still count.

        One that the store does not know is no matter.
        """
        ...

    def condemn_experiment(self, experiment_id: int) -> list[Checkpoint]:
        """The same for all of an experiment that has ended; returns them, those that were marked before as well.

        Imported ones are among them: their records go, and their files stay.
        """
        ...

    def run_directories(self, experiment_id: int) -> list[RunDirectory]:
        """Of its trials, but none in which a trial of another experiment ran as well."""
        ...

    def delete_experiment(self, experiment_id: int, lease: Lease | None) -> None:
        """Every row of it, at once; a search needs the lease. What came from it forgets its parent."""
        ...
