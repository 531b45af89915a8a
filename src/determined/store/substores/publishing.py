"""Checkpoints that are being published: in their storage, or about to be, but not yet recorded as a row."""

from __future__ import annotations

import time

from determined.store import process
from determined.store.databases.base import Database
from determined.store.process import Process
from determined.store.sql.columns import text
from determined.store.workers.unrecorded import Origin, Unrecorded

# Processes on other hosts cannot be checked: after this time without a recorded checkpoint they count as ended.
_SECONDS_TO_WAIT_FOR_OTHER_MACHINES = 86_400.0


class Publishing:
    """The rows about checkpoints that are being published, and the identity of this store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def origin(self, trial_id: int, attempt: int) -> Origin:
        """Return the origin that checkpoints of an attempt carry in their metadata."""
        ((key,),) = self._database.execute(
            "SELECT e.key FROM experiments e JOIN trials t ON t.experiment_id = e.id WHERE t.id = ?", [trial_id]
        )
        return Origin(self._own_identity(), key, trial_id, attempt)

    def unrecorded(self, storage: str, trial_id: int | None = None) -> list[Unrecorded]:
        """Return the checkpoints that ended attempts, of all trials or one, were about to publish in a storage."""
        found = self._database.execute(
            "SELECT p.uuid, e.key, p.trial_id, p.attempt, t.attempt, p.since, a.ended, a.host, a.pid, "
            "a.process_started FROM publishing p JOIN trials t ON t.id = p.trial_id "
            "JOIN experiments e ON e.id = t.experiment_id "
            "JOIN attempts a ON a.trial_id = p.trial_id AND a.number = p.attempt "
            f"WHERE p.storage = ? {'' if trial_id is None else 'AND p.trial_id = ?'} ORDER BY p.since",
            [text(storage)] if trial_id is None else [text(storage), trial_id],
        )
        unrecorded = []
        for checkpoint_id, key, trial, attempt, newest, since, ended, *writer in found:
            # The wall clock, because the time was recorded by another process.
            old = time.time() - since > _SECONDS_TO_WAIT_FOR_OTHER_MACHINES
            gone = ended is not None or old or _is_gone(Process(*writer))
            # `attempt < newest`: the trial was restarted, so the old attempt cannot record the checkpoint any more.
            # With `trial_id` the caller guarantees that no process of the trial is running.
            if gone or trial_id is not None or attempt < newest:
                unrecorded.append(Unrecorded(checkpoint_id, Origin(self._own_identity(), key, trial, attempt), gone))
        return unrecorded

    def places(self, experiment_id: int) -> list[tuple[int, str]]:
        """Return (trial id, storage) for each storage in which a trial of the experiment has unrecorded checkpoints."""
        found = self._database.execute(
            "SELECT DISTINCT p.trial_id, p.storage FROM publishing p JOIN trials t ON t.id = p.trial_id "
            "WHERE t.experiment_id = ? ORDER BY p.trial_id, p.storage",
            [experiment_id],
        )
        return [(trial_id, storage) for trial_id, storage in found]

    def forget(self, checkpoint_id: str) -> None:
        """Delete the row of a checkpoint that never appeared in the storage or was deleted from it."""
        with self._database.transaction():
            self._database.execute("DELETE FROM publishing WHERE uuid = ?", [checkpoint_id])

    def _own_identity(self) -> str:
        """Return the id of this store."""
        ((identity,),) = self._database.execute("SELECT uuid FROM store_identity")
        return str(identity)


def _is_gone(writer: Process) -> bool:
    """Return whether a process has certainly ended.

    Processes on other hosts cannot be checked, so this is False for them.
    """
    return not process.may_be_running(writer)
