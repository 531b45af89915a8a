"""The lines that a trial wrote, chosen and followed."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from determined.experimental.session import Session
from determined.store.experiment_records import TRIAL_ENDED

if TYPE_CHECKING:
    from determined.store.records import Log

logger = logging.getLogger("determined.experimental")

Time = str | int | float | datetime

_PAGE = 1000
_POLLING_SECONDS = 0.5


@dataclass(frozen=True)
class Wanted:
    """Which lines; None and empty mean: all."""

    rank_ids: Sequence[int] | None = None
    stdtypes: Sequence[str] | None = None
    min_level: str | None = None
    before: float | None = None
    after: float | None = None
    text: str | None = None

    def matches(self, line: Log) -> bool:
        return (
            (not self.rank_ids or line.rank in self.rank_ids)
            and (not self.stdtypes or line.stream in self.stdtypes)
            and (self.before is None or line.written < self.before)
            and (self.after is None or line.written > self.after)
            and (self.text is None or self.text in line.text)
        )


def iter_lines(
    session: Session, trial_id: int, wanted: Wanted, *, follow: bool, head: int | None, tail: int | None
) -> Iterator[str]:
    """Each with when and by which rank it was written; following ends with the trial."""
    for name, count in (("head", head), ("tail", tail)):
        if count is not None and count < 0:
            raise ValueError(f"{name} must not be negative, got {count}")
    if sum((follow, head is not None, tail is not None)) > 1:
        raise ValueError("follow, head and tail exclude each other")
    session.ask(lambda store: store.experiments.trial(trial_id))
    return _lines(session, trial_id, wanted, follow, head, tail)


def _lines(
    session: Session, trial_id: int, wanted: Wanted, follow: bool, head: int | None, tail: int | None
) -> Iterator[str]:
    if follow:
        found = _followed(session, trial_id, wanted)
    elif tail is not None and wanted == Wanted(min_level=wanted.min_level):  # the store itself knows the last ones
        found = iter(session.ask(lambda store: store.logs(trial_id, level=wanted.min_level, tail=tail)))
    else:
        found = _present(session, trial_id, wanted, [0])
        found = found if tail is None else iter(deque(found, maxlen=tail))
    for line in islice(found, head):
        written = datetime.fromtimestamp(line.written, UTC)
        yield f"[{written.isoformat(timespec='milliseconds')}] [rank={line.rank}] {line.text}"


def _present(session: Session, trial_id: int, wanted: Wanted, position: list[int]) -> Iterator[Log]:
    """From the position on, which moves with what was read."""

    def read(store: Any) -> list[Log]:
        lines: list[Log] = store.logs(trial_id, position[0], _PAGE, level=wanted.min_level)
        return lines

    while page := session.ask(read):
        position[0] = page[-1].id
        yield from filter(wanted.matches, page)


def _followed(session: Session, trial_id: int, wanted: Wanted) -> Iterator[Log]:
    position = [0]
    while True:
        # Asked before reading: what was written until then is read now.
        over = session.ask(lambda store: store.experiments.trial(trial_id)).state in TRIAL_ENDED
        yield from _present(session, trial_id, wanted, position)
        if over:
            return
        time.sleep(_POLLING_SECONDS)


def seconds_of(name: str, value: Time | None) -> float | None:
    """A moment as seconds since 1970; a text is RFC 3339, and what names no zone is UTC."""
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            raise ValueError(f"{name} must be a time like 2026-01-31T12:00:00Z, got {value!r}") from None
    if not isinstance(value, datetime):
        raise TypeError(f"{name} must be a text, a number of seconds or a datetime, got {value!r}")
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
