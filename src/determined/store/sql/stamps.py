"""Stamps of a trial's reports: random numbers by which a cache notices that the reports have changed."""

from __future__ import annotations

import os

from determined.store.databases.base import Database


def new_stamp() -> int:
    """Return a number that identifies a version of a trial's reports.

    It is random, because a counter would return to the same value in a copy of the store that continues separately. The
    numbers come from the system: this runs in training programs, whose own random numbers must not change.
    """
    return int.from_bytes(os.urandom(8)) >> 1


def stamp_trials_without(database: Database) -> None:
    """Give a stamp to the trials that have none, which are those of an earlier schema and those of an import."""
    database.execute("UPDATE trials SET changes = ?, rewrites = ? WHERE changes = 0", [new_stamp(), new_stamp()])
