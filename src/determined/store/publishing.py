"""Checkpoints between the moment they appear in their storage and the row that records them.

A process can be killed there. So it notes what it is about to publish; whoever goes on with the trial, or uses the
same storage later, finds the note and records the checkpoint, or removes what is left of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from determined.store import process
from determined.store.columns import text
from determined.store.database import Database
from determined.store.process import Process
from determined.store.records import CheckpointRow

if TYPE_CHECKING:
    from determined.store.base import Store

logger = logging.getLogger("determined.store")

T = TypeVar("T")

_SECONDS_TO_WAIT_FOR_OTHER_MACHINES = 86_400.0  # before a process there that says nothing is taken to have ended


class Ask(Protocol):
    def __call__(self, question: Callable[[Store], T], /) -> T: ...


@dataclass(frozen=True)
class Origin:
    """Where a checkpoint comes from; of all stores that share a storage, one attempt of one of them."""

    store: str
    experiment: str
    trial: int
    attempt: int

    def plain(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Unrecorded:
    """A checkpoint that an attempt, which is over, was about to publish."""

    uuid: str
    origin: Origin
    is_gone: bool  # its process has ended for certain: what has not appeared by now never will


Examine = Callable[[str, dict[str, Any]], tuple[dict[str, Any], dict[str, int]] | None]
"""Takes an id and an origin, and returns metadata and files of what is whole in the storage; see `examine` there."""


def settle_unrecorded(ask: Ask, storage: str, examine: Examine, trial_id: int | None = None) -> list[str]:
    """Record the published checkpoints of attempts that are over, and return their ids.

    With `trial_id` the caller knows that no process of that trial is at work, and only its checkpoints are looked at.
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
    store.publishing.forget(uuid)


def _record(row: CheckpointRow, store: Store) -> None:
    store.write([row])


class Publishing:
    """The notes about checkpoints that are being published, and who this store is."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def origin(self, trial_id: int, attempt: int) -> Origin:
        """Return what the checkpoints of an attempt say about where they come from."""
        ((key,),) = self._database.execute(
            "SELECT e.key FROM experiments e JOIN trials t ON t.experiment_id = e.id WHERE t.id = ?", [trial_id]
        )
        return Origin(self._own_identity(), key, trial_id, attempt)

    def unrecorded(self, storage: str, trial_id: int | None = None) -> list[Unrecorded]:
        """Return what attempts that are over, of all trials or of one, were about to publish in that storage."""
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
            if gone or trial_id is not None or attempt < newest:
                unrecorded.append(Unrecorded(uuid, Origin(self._own_identity(), key, trial, attempt), gone))
        return unrecorded

    def places(self, experiment_id: int) -> list[tuple[int, str]]:
        """Return the trials of an experiment with unrecorded checkpoints, each with the storage that they are in."""
        found = self._database.execute(
            "SELECT DISTINCT p.trial_id, p.storage FROM publishing p JOIN trials t ON t.id = p.trial_id "
            "WHERE t.experiment_id = ? ORDER BY p.trial_id, p.storage",
            [experiment_id],
        )
        return [(trial_id, storage) for trial_id, storage in found]

    def forget(self, uuid: str) -> None:
        """Remove a note: the checkpoint never appeared, or is removed."""
        with self._database.transaction():
            self._database.execute("DELETE FROM publishing WHERE uuid = ?", [uuid])

    def _own_identity(self) -> str:
        ((identity,),) = self._database.execute("SELECT uuid FROM store_identity")
        return str(identity)


def _is_gone(writer: Process) -> bool:
    """Return whether a process has ended for certain; of processes on other machines nothing is known."""
    return process.on_this_machine(writer) and not process.is_running(writer)
