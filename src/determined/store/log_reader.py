"""Read the log of a trial in pages, and continue later from where reading stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from determined.store.records import Log, LogFilter
    from determined.store.store import Store

    # Runs a query on a store, for example with retries or under a lock, and returns its lines.
    RunQuery = Callable[[Callable[[Store], list[Log]]], list[Log]]

PAGE = 1000  # lines per query, which bounds memory for logs of any length
# Each poll is a query, and a line should appear without a visible delay.
POLLING_SECONDS = 0.5


class LogReader:
    """Reads the selected lines of a trial's log, each time from where it stopped before.

    With `finished_only`, for those who follow a log, a progress bar is returned when it has its last state.
    """

    def __init__(self, run_query: RunQuery, trial_id: int, only: LogFilter, *, finished_only: bool = False) -> None:
        self._run_query = run_query
        self._trial_id = trial_id
        self._only = only
        self._finished_only = finished_only
        self._after = 0  # lines up to this id have been read or do not match

    def new_lines(self, per_page: int = PAGE) -> Iterator[Log]:
        """Yield the lines that were not read yet."""
        newest = 0

        def first_page(store: Store) -> list[Log]:
            nonlocal newest
            # Before the lines: lines up to it that do not match need not be searched again at the next poll.
            newest = store.newest_log(self._trial_id)
            return page(store)

        def page(store: Store) -> list[Log]:
            return store.logs(self._trial_id, self._after, per_page, only=self._only)

        lines = self._run_query(first_page)
        while lines:
            self._after = lines[-1].id
            yield from self._wanted(lines)
            lines = self._run_query(page)
        self._after = max(self._after, newest)

    def last_lines(self, count: int) -> list[Log]:
        """Return the last `count` of the lines that were not read yet, and mark all lines up to now as read."""
        newest = 0

        def last_page(store: Store) -> list[Log]:
            nonlocal newest
            newest = store.newest_log(self._trial_id)
            return store.logs(self._trial_id, self._after, only=self._only, tail=count)

        lines = self._run_query(last_page)
        self._after = max(self._after, newest, lines[-1].id if lines else 0)
        return self._wanted(lines)

    def _wanted(self, lines: list[Log]) -> list[Log]:
        """Return the lines without the present states of progress bars, if only finished lines are wanted."""
        return [line for line in lines if line.finished] if self._finished_only else lines
