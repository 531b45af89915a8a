"""Read and follow the log lines of trials in the store."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

import click

from determined.cli.display.json_rows import log_plain
from determined.cli.display.output import Form, json_line
from determined.cli.logs.line_format import format_line
from determined.cli.logs.options import LogChoice
from determined.cli.opened import patiently

if TYPE_CHECKING:
    from determined.store.records import Log, LogFilter
    from determined.store.store import Store

_PAGE = 1000  # lines per query, which bounds memory for logs of any length
_POLLING_SECONDS = 0.5

Found = tuple[int, "Log"]  # the trial's id, and a line of its log


def print_log(
    store: Store,
    trials: Callable[[], list[int]],
    choice: LogChoice,
    *,
    may_grow: Callable[[], bool],
    name_trials: bool,
    form: Form,
) -> int:
    """Print the selected lines of the logs of these trials, and return how many there were.

    With `choice.follow`, poll until `may_grow` returns False; `trials` is called at every poll, as new ones may start.
    """
    log = _Reader(store, trials, choice.only)
    printed = _print(log.last_lines(choice.tail) if choice.tail else log.new_lines(choice.head), name_trials, form)
    follow = choice.follow
    while follow:
        follow = patiently(may_grow)  # checked before reading, so that lines written until then are still printed
        printed += _print(log.new_lines(), name_trials, form)
        if follow:
            time.sleep(_POLLING_SECONDS)
    return printed


class _Reader:
    """Reads the logs of trials, each time from where it stopped before."""

    def __init__(self, store: Store, trials: Callable[[], list[int]], only: LogFilter) -> None:
        self._store = store
        self._trials = trials
        self._only = only
        self._after: dict[int, int] = {}  # by trial: lines up to this id have been read or did not match

    def new_lines(self, most: int | None = None) -> Iterator[Found]:
        """Return the first `most` unread lines, in the order in which they reached the store."""
        found = merge(*(self._pages(trial, most) for trial in patiently(self._trials)), key=lambda line: line[1].id)
        return islice(found, most)

    def last_lines(self, count: int) -> Iterator[Found]:
        """Return the last `count` lines of all trials together."""
        found = merge(*(self._last(trial, count) for trial in patiently(self._trials)), key=lambda line: line[1].id)
        return iter(deque(found, maxlen=count))

    def _pages(self, trial_id: int, most: int | None) -> Iterator[Found]:
        """Yield the unread lines of a trial, read in pages."""
        # The newest id is read first: lines up to it that do not match need not be searched again at the next poll.
        newest = patiently(lambda: self._store.newest_log(trial_id))
        limit = _PAGE if most is None else min(most, _PAGE)
        while page := self._read(trial_id, limit=limit):
            yield from page
        self._after[trial_id] = max(self._after.get(trial_id, 0), newest)

    def _last(self, trial_id: int, count: int) -> list[Found]:
        newest = patiently(lambda: self._store.newest_log(trial_id))
        found = self._read(trial_id, tail=count)
        self._after[trial_id] = max(self._after.get(trial_id, 0), newest)
        return found

    def _read(self, trial_id: int, *, limit: int | None = None, tail: int | None = None) -> list[Found]:
        after = self._after.get(trial_id, 0)
        lines = patiently(lambda: self._store.logs(trial_id, after, limit, only=self._only, tail=tail))
        if lines:
            self._after[trial_id] = lines[-1].id
        return [(trial_id, line) for line in lines]


def _print(lines: Iterable[Found], name_trials: bool, form: Form) -> int:
    """Print lines and return how many.

    They are printed in blocks, because a call of `click.echo` costs the same for one line as for many.
    """
    lines = iter(lines)
    printed = 0
    while some := list(islice(lines, _PAGE)):
        if form == "json":
            click.echo("\n".join(json_line(log_plain(line, trial_id)) for trial_id, line in some))
        else:
            shown = [
                format_line(line.text, line.rank, line.written, trial_id if name_trials else None)
                for trial_id, line in some
            ]
            click.echo("\n".join(shown), color=True)  # keep colours for files and pipes, where click would remove them
        printed += len(some)
    return printed
