"""Read, filter and follow the log lines of a trial."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from determined.experimental.session import Session
from determined.store.log_reader import POLLING_SECONDS, LogReader
from determined.store.states import TRIAL_ENDED

if TYPE_CHECKING:
    from determined.store.records import Log, LogFilter

logger = logging.getLogger("determined.experimental")

Time = str | int | float | datetime


def iter_lines(
    session: Session, trial_id: int, only: LogFilter, *, follow: bool, head: int | None, tail: int | None
) -> Iterator[str]:
    """Yield the selected lines, each with its time and rank; with `follow`, until the trial ends."""
    for name, count in (("head", head), ("tail", tail)):
        if count is not None and count < 0:
            raise ValueError(f"{name} must not be negative, got {count}")
    if sum((follow, head is not None, tail is not None)) > 1:
        raise ValueError("follow, head and tail exclude each other")
    # Raises for an unknown trial now, and not when the first line is read.
    session.read(lambda store: store.experiments.trial(trial_id))
    return _lines(session, trial_id, only, follow, head, tail)


def _lines(
    session: Session, trial_id: int, only: LogFilter, follow: bool, head: int | None, tail: int | None
) -> Iterator[str]:
    """Yield the selected lines as text."""
    reader = LogReader(session.read, trial_id, only, finished_only=follow)
    if follow:
        found = _followed(session, trial_id, reader)
    elif tail is not None:
        found = iter(reader.last_lines(tail))
    else:
        found = reader.new_lines()
    for line in islice(found, head):
        written = datetime.fromtimestamp(line.written, UTC)
        yield f"[{written.isoformat(timespec='milliseconds')}] [rank={line.rank}] {line.text}"


def _followed(session: Session, trial_id: int, reader: LogReader) -> Iterator[Log]:
    """Yield lines as they are written, until the trial has ended."""
    while True:
        # Read before the lines, so that no line written before the end is missed.
        over = session.read(lambda store: store.experiments.trial(trial_id)).state in TRIAL_ENDED
        yield from reader.new_lines()
        if over:
            return
        time.sleep(POLLING_SECONDS)


def seconds_of(name: str, value: Time | None) -> float | None:
    """Return a time as seconds since 1970; a text is RFC 3339, and a time without a zone is UTC."""
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{name} must be a time like 2026-01-31T12:00:00Z, got {value!r}") from None
    if not isinstance(value, datetime):
        raise TypeError(f"{name} must be a string, a number of seconds or a datetime, got {value!r}")
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
