"""Reads the requests to the workers of a trial."""

from __future__ import annotations

from determined.stop_request import StopRequest
from determined.store.databases.base import Database
from determined.store.records import Request


def requests_to(database: Database, trial_id: int, after: int) -> list[Request]:
    """Return the requests to a trial with an id above `after`, in order."""
    found = database.execute(
        "SELECT id, trial_id, kind, created FROM requests WHERE trial_id = ? AND id > ? ORDER BY id", [trial_id, after]
    )
    return [Request(*row) for row in found]


def newest_request(database: Database, trial_id: int) -> StopRequest | None:
    """Return the newest request to the trial's current allocation, or None."""
    found = database.execute(
        "SELECT r.kind FROM requests r JOIN trials t ON t.id = r.trial_id "
        # Requests up to `last_request` were made to an earlier allocation of the trial.
        "WHERE r.trial_id = ? AND r.id > t.last_request ORDER BY r.id DESC LIMIT 1",
        [trial_id],
    )
    return found[0][0] if found else None


def last_request(database: Database, trial_id: int) -> int:
    """Return the id of the newest request to a trial in any of its allocations; 0 if there is none."""
    ((last,),) = database.execute("SELECT max(id) FROM requests WHERE trial_id = ?", [trial_id])
    return last or 0
