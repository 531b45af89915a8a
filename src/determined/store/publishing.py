"""Recovery of checkpoints that were stored but not recorded because their process was killed in between.

Before a process publishes a checkpoint, it writes a row to the `publishing` table. A later process that continues the
trial or uses the same storage reads the row and either records the checkpoint or deletes the row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from determined.store import process
from determined.store.databases.base import Database
from determined.store.process import Process
from determined.store.rows import CheckpointRow
from determined.store.sql.columns import text

if TYPE_CHECKING:
    from determined.store.store import Store

logger = logging.getLogger("determined.store")

T = TypeVar("T")

# Processes on other hosts cannot be checked: after this time without a recorded checkpoint they count as ended.
_SECONDS_TO_WAIT_FOR_OTHER_MACHINES = 86_400.0


class Ask(Protocol):
    """A function that runs a query on the store and returns its result, such as `Writer.ask`."""

    def __call__(self, question: Callable[[Store], T], /) -> T: ...


class Origin(NamedTuple):
    """The attempt that saved a checkpoint, identified across all stores that share a checkpoint storage."""

    store: str
    experiment: str
    trial: int
    attempt: int

    def plain(self) -> dict[str, Any]:
        """Return the fields as a dict, to be stored as JSON."""
        return self._asdict()


class Unrecorded(NamedTuple):
    """A checkpoint that was about to be published by an attempt that has ended or was superseded."""

    uuid: str
    origin: Origin
    is_gone: bool  # its process has certainly ended: a checkpoint that is not in the storage now never will be


Examine = Callable[[str, dict[str, Any]], tuple[dict[str, Any], dict[str, int]] | None]
"""Takes an id and an origin; returns metadata and files of a complete checkpoint in the storage, or None."""


def settle_unrecorded(ask: Ask, storage: str, examine: Examine, trial_id: int | None = None) -> list[str]:
    """Record the published but unrecorded checkpoints of attempts that have ended, and return their ids.

    With `trial_id`, only checkpoints of that trial are examined, and the caller guarantees that no process of the trial
    is running.
    """
    recorded = []
    for found in ask(lambda store: store.publishing.unrecorded(storage, trial_id)):
        whole = examine(found.uuid, found.origin.plain())
        if whole is None:
            if found.is_gone:
                ask(partial(_forget, found.uuid))
            continue
        metadata, resources = whole
        row = CheckpointRow(
            found.uuid,
            found.origin.trial,
            found.origin.attempt,
            metadata["steps_completed"],
            metadata,
            resources,
            storage,
            time.time(),
        )
        ask(partial(_record, row))
        logger.info(
            "recorded checkpoint %s of trial %d, whose process ended right after storing it", row.uuid, row.trial_id
        )
        recorded.append(found.uuid)
    return recorded


def _forget(uuid: str, store: Store) -> None:
    """Delete the publishing row of a checkpoint."""
    store.publishing.forget(uuid)


def _record(row: CheckpointRow, store: Store) -> None:
    """Write the row of a checkpoint."""
    store.write([row])


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
        for uuid, key, trial, attempt, newest, since, ended, *writer in found:
            old = time.time() - since > _SECONDS_TO_WAIT_FOR_OTHER_MACHINES
            gone = ended is not None or old or _is_gone(Process(*writer))
            # `attempt < newest`: the trial was restarted, so the old attempt cannot record the checkpoint any more.
            if gone or trial_id is not None or attempt < newest:
                unrecorded.append(Unrecorded(uuid, Origin(self._own_identity(), key, trial, attempt), gone))
        return unrecorded

    def places(self, experiment_id: int) -> list[tuple[int, str]]:
        """Return (trial id, storage) for each storage in which a trial of the experiment has unrecorded checkpoints."""
        found = self._database.execute(
            "SELECT DISTINCT p.trial_id, p.storage FROM publishing p JOIN trials t ON t.id = p.trial_id "
            "WHERE t.experiment_id = ? ORDER BY p.trial_id, p.storage",
            [experiment_id],
        )
        return [(trial_id, storage) for trial_id, storage in found]

    def forget(self, uuid: str) -> None:
        """Delete the row of a checkpoint that never appeared in the storage or was deleted from it."""
        with self._database.transaction():
            self._database.execute("DELETE FROM publishing WHERE uuid = ?", [uuid])

    def _own_identity(self) -> str:
        """Return the id of this store."""
        ((identity,),) = self._database.execute("SELECT uuid FROM store_identity")
        return str(identity)


def _is_gone(writer: Process) -> bool:
    """Return whether a process has certainly ended.

    Processes on other hosts cannot be checked, so this is False for them.
    """
    return process.on_this_machine(writer) and not process.is_running(writer)
