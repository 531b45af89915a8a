"""Classify errors of SQLite by their result codes; the texts of messages differ between versions."""

from __future__ import annotations

import sqlite3


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection holds a lock on the database or a table."""
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_full(error: sqlite3.Error) -> bool:
    """Return whether the disk is full, or the file has reached its maximum size."""
    return _primary_code(error) == sqlite3.SQLITE_FULL


def is_read_only(error: sqlite3.Error) -> bool:
    """Return whether the file, or its file system, cannot be written."""
    return _primary_code(error) == sqlite3.SQLITE_READONLY


def _primary_code(error: sqlite3.Error) -> int | None:
    """Return the primary result code; None for an error that Python's driver raised without asking SQLite."""
    # The low byte: extended codes, such as several reasons for a file that cannot be written, use the other bits.
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
