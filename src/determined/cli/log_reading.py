"""Lines of trials out of the store: those that are there, and those that come."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

import click

from determined.cli.log_choice import LogChoice
from determined.cli.log_lines import format_line
from determined.cli.opened import patiently
from determined.cli.output import Form, print_json_line
from determined.cli.plain import log_plain

if TYPE_CHECKING:
    from determined.store.base import Store
    from determined.store.records import Log

_PAGE = 1000
_POLLING_SECONDS = 0.5

Found = tuple[int, "Log"]  # the trial's id, and a line of its log
Source = tuple[int, "int | None"]  # a trial, and one rank of it or all


def print_log(
    store: Store,
    trials: Callable[[], list[int]],
    choice: LogChoice,
    *,
    may_grow: Callable[[], bool],
    name_trials: bool,
    form: Form,
) -> None:
    """What is wanted of the log of these trials, of which there may be more at every look."""
    log = _Reader(store, trials, choice)
    _print(log.last_lines(choice.tail) if choice.tail else islice(log.new_lines(), choice.head), name_trials, form)
    follow = choice.follow
    while follow:
        follow = patiently(may_grow)  # asked before reading: what was written until then is read now
        _print(log.new_lines(), name_trials, form)
        if follow:
            time.sleep(_POLLING_SECONDS)


class _Reader:
    """The log of some trials, read on from where it was left."""

    def __init__(self, store: Store, trials: Callable[[], list[int]], choice: LogChoice) -> None:
        self._store = store
        self._trials = trials
        self._choice = choice
        self._after: dict[Source, int] = {}

    def new_lines(self) -> Iterator[Found]:
        """In the order in which they reached the store."""
        lines = merge(*(self._pages(source) for source in self._sources()), key=lambda found: found[1].id)
        return (found for found in lines if self._choice.matches(found[1]))

    def last_lines(self, count: int) -> Iterator[Found]:
        if not self._choice.store_knows:
            return iter(deque(self.new_lines(), maxlen=count))
        lines = merge(*(self._read(source, tail=count) for source in self._sources()), key=lambda found: found[1].id)
        return iter(deque(lines, maxlen=count))

    def _sources(self) -> list[Source]:
        ranks: tuple[int | None, ...] = tuple(dict.fromkeys(self._choice.ranks)) or (None,)
        return [(trial_id, rank) for trial_id in patiently(self._trials) for rank in ranks]

    def _pages(self, source: Source) -> Iterator[Found]:
        while page := self._read(source, limit=_PAGE):
            yield from page

    def _read(self, source: Source, *, limit: int | None = None, tail: int | None = None) -> list[Found]:
        trial_id, rank = source
        after, level = self._after.get(source, 0), self._choice.level
        lines = patiently(lambda: self._store.logs(trial_id, after, limit, rank=rank, level=level, tail=tail))
        if lines:
            self._after[source] = lines[-1].id
        return [(trial_id, line) for line in lines]


def _print(lines: Iterable[Found], name_trials: bool, form: Form) -> None:
    for trial_id, line in lines:
        if form == "json":
            print_json_line(log_plain(line, trial_id))
        else:
            shown = format_line(line.text, line.rank, line.written, trial_id if name_trials else None)
            click.echo(shown, color=True)  # a file gets the line as it was written
