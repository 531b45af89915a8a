"""Leases: at most one process runs an experiment at a time, and another process can take over after a crash.

Clocks of different machines are never compared: the holder's heartbeat is a counter, and a process that waits for it to
advance measures the time with its own monotonic clock.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import NamedTuple

from determined.errors import ExperimentHeld, LeaseLost, NotFoundException, StoreError
from determined.store.databases.base import Database
from determined.store.experiment_records import Holder, Lease
from determined.store.process import Process, may_be_running

_SECONDS_BETWEEN_POLLS = 0.1  # a fraction of the heartbeat, so that a holder that is alive is noticed soon


class _Row(NamedTuple):
    """A row of the table of leases."""

    token: int
    holder: Holder | None


def acquire(database: Database, experiment_id: int, process: Process, *, watch_seconds: float) -> Lease:
    """Acquire the lease of an experiment, or raise `ExperimentHeld`; see `Experiments.acquire`."""
    seen, since = _read(database, experiment_id), time.monotonic()
    while True:
        if _may_be_taken(seen.holder, process) or time.monotonic() - since >= watch_seconds:
            lease = _take(database, experiment_id, process, seen)
            if lease is not None:
                return lease
        else:
            # Not after a failed `_take`: the row has changed, and is read again at once.
            time.sleep(_SECONDS_BETWEEN_POLLS)
        now = _read(database, experiment_id)
        # A single advance of the heartbeat proves that the holder is alive, so the rest of the time is not waited for.
        if now != seen:  # another process took the lease or advanced its heartbeat
            if seen.holder is not None and now.holder is not None and not _may_be_taken(now.holder, process):
                raise _held(experiment_id, now.holder)
            seen, since = now, time.monotonic()


def beat(database: Database, lease: Lease) -> None:
    """Advance the heartbeat of a lease. Raise `LeaseLost` if another process has taken over.

    Called inside the caller's transaction: the row is locked until it ends, so no other process can take over between
    this check and the caller's writes.
    """
    # The token alone decides: a process that was frozen, and replaced, still believes that it holds the lease.
    found = database.read_locked("SELECT token FROM leases WHERE experiment_id = ?", [lease.experiment_id])
    if not found or found[0][0] != lease.token:
        raise LeaseLost(
            f"experiment {lease.experiment_id} was taken over by another process: this process must stop running it"
        )
    database.execute("UPDATE leases SET heartbeat = heartbeat + 1 WHERE experiment_id = ?", [lease.experiment_id])


def release(database: Database, lease: Lease) -> None:
    """Clear the holder of a lease unless another process has taken over."""
    with database.transaction():
        database.execute(
            "UPDATE leases SET host = NULL, pid = NULL, process_started = NULL, since = NULL "
            # The token, so that a process that lost its lease does not release that of its successor.
            "WHERE experiment_id = ? AND token = ?",
            [lease.experiment_id, lease.token],
        )


def holder(
    token: int, heartbeat: int, host: str | None, pid: int | None, process_started: str | None, since: float | None
) -> Holder | None:
    """Return the holder from the columns of a lease, or None if it has no holder."""
    if host is None or pid is None or process_started is None or since is None:
        return None
    return Holder(Process(host, pid, process_started), since, token, heartbeat)


COLUMNS = "l.token, l.heartbeat, l.host, l.pid, l.process_started, l.since"


def _read(database: Database, experiment_id: int) -> _Row:
    """Return the lease of an experiment; raise an error for a standalone run, which has none."""
    found = database.execute(f"SELECT {COLUMNS} FROM leases l WHERE l.experiment_id = ?", [experiment_id])
    if not found:
        if database.execute("SELECT 1 FROM experiments WHERE id = ?", [experiment_id]):
            raise StoreError(f"experiment {experiment_id} is a standalone run, which only its own program can run")
        raise NotFoundException.of("experiment", experiment_id)
    return _Row(found[0][0], holder(*found[0]))


def _may_be_taken(holder: Holder | None, process: Process) -> bool:
    """Return whether a lease can be taken without watching its heartbeat."""
    if holder is None or holder.process == process:
        return True
    return not may_be_running(holder.process)


def _take(database: Database, experiment_id: int, process: Process, seen: _Row) -> Lease | None:
    """Take the lease if it is unchanged since it was read.

    Return None if the holder advanced its heartbeat, another process was faster, or the experiment was deleted.
    """
    with database.transaction():
        found = database.read_locked("SELECT token, heartbeat FROM leases WHERE experiment_id = ?", [experiment_id])
        if not found:
            return None
        ((token, heartbeat),) = found
        # Checked again under the lock: the holder may have shown up since the row was read.
        if token != seen.token or (seen.holder is not None and heartbeat != seen.holder.heartbeat):
            return None
        # The heartbeat advances as well, so that other processes that watch the row see the change.
        database.execute(
            "UPDATE leases SET token = ?, heartbeat = heartbeat + 1, host = ?, pid = ?, process_started = ?, "
            "since = ? WHERE experiment_id = ?",
            [token + 1, process.host, process.pid, process.started, time.time(), experiment_id],
        )
        return Lease(experiment_id, token + 1)


def _held(experiment_id: int, holder: Holder) -> ExperimentHeld:
    """Return the error for an experiment whose lease another process holds."""
    since = datetime.fromtimestamp(holder.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return ExperimentHeld(
        f"experiment {experiment_id} is being run by process {holder.process.pid} on host {holder.process.host} since "
        f"{since}"
    )
