"""`/api/logs`: log lines of a trial, or of all trials of an experiment."""

from __future__ import annotations

import re
import time
from itertools import compress
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request
from starlette.exceptions import HTTPException
from typing_extensions import TypedDict

from determined.store.records import LOG_LEVELS, Log, LogFilter
from determined.store.sql.logs import LogRange
from determined.store.store import Store
from determined.web.answers import Route
from determined.web.identifiers import MOST_FILTERED, FilteredIds, Id, numbers
from determined.web.pattern_search import matching
from determined.web.state import reading

router = APIRouter(route_class=Route)

_LONGEST_LINE = 20_000  # characters that are sent; a browser takes seconds for a line of a megabyte
_LONGEST_SEARCHED = 4000  # characters that a regular expression is applied to
_SECONDS_TO_SEARCH = 2.0
_LEAST_SECONDS = 1.5  # for each page, even at the end of the search: a process has to start, also on a busy machine
_PAGE = 2000


class LogLine(TypedDict):
    """A log line. Ids grow in the order in which lines reached the store; `cut` characters at its end are left out.

    A line that is not `finished` is the present state of a progress bar, which the next line of its rank and stream
    replaces.
    """

    id: int
    trial: int
    attempt: int
    time: float
    level: str | None
    rank: int
    stream: str
    text: str
    cut: int
    finished: bool


class LogPlace(TypedDict):
    """A line of a log that was searched, and when it was written."""

    id: int
    time: float


class SearchedPart(TypedDict):
    """The first and the last line of the part of a log that was searched: all matching lines between them are known."""

    first: LogPlace
    last: LogPlace


class LogLines(TypedDict):
    """Log lines in order, and whether there are matching ones before and after them.

    A search for a regular expression ends after some seconds. `searched` is the part that it has read, null without an
    expression or if the log is empty; `older` and `newer` then say whether lines before and after this part were left
    out. To continue, ask for the lines before `searched.first` or after `searched.last`.
    """

    lines: list[LogLine]
    older: bool
    newer: bool
    searched: SearchedPart | None


@router.get("/api/logs")
def logs(
    request: Request,
    trial: Id | None = None,
    experiment: Id | None = None,
    trials: FilteredIds = None,
    after: Id | None = None,
    before: Id | None = None,
    level: Annotated[str | None, Query(json_schema_extra={"enum": [None, *LOG_LEVELS]})] = None,
    rank: Id | None = None,
    stream: str | None = None,
    text: Annotated[str | None, Query(max_length=1000)] = None,
    regex: bool = False,
    around_time: Annotated[float | None, Query(allow_inf_nan=False)] = None,
    limit: Annotated[int, Query(ge=1, le=5000)] = 500,
) -> LogLines:
    """Return lines after or before an id, around a time, or the newest ones.

    `trials`, such as `1-40,44`, limits the log of an experiment to some of its trials.
    """
    if (trial is None) == (experiment is None):
        raise HTTPException(422, "name either a trial or an experiment")
    if trials is not None and experiment is None:
        raise HTTPException(422, "trials: name the experiment of the trials, too")
    if level is not None and level not in LOG_LEVELS:
        raise HTTPException(422, f"level: expected one of {', '.join(LOG_LEVELS)}")
    only = LogFilter(
        ranks=() if rank is None else (rank,),
        streams=() if stream is None else (stream,),
        level=level,
        text=None if regex or not text else text,
    )
    only_trials = None if trials is None else tuple(numbers(trials, MOST_FILTERED))
    which = LogRange(trial_id=trial, experiment_id=experiment, only_trials=only_trials)
    pattern = text if regex and text else None
    if pattern is not None:
        _check_pattern(pattern)
    with reading(request) as store:
        if trial is not None:
            store.experiments.trial(trial)
        elif experiment is not None:
            store.experiments.get(experiment)
        read = _Plain(store, only) if pattern is None else _Search(store, only, pattern)
        if around_time is None:
            found = read.page(which._replace(after=after, before=before, last=after is None), limit)
        else:
            found = _around(store, read, which, around_time, limit)
    return {
        "lines": [_line(*one) for one in found.lines],
        "older": found.older,
        "newer": found.newer,
        "searched": found.searched,
    }


class _Page(NamedTuple):
    """Lines of a log with their trials, and the other fields of `LogLines`."""

    lines: list[tuple[int, Log]]
    older: bool
    newer: bool
    searched: SearchedPart | None = None


class _Plain:
    """Reads pages of log lines, filtered by the database."""

    def __init__(self, store: Store, only: LogFilter) -> None:
        self._store = store
        self._only = only

    def page(self, which: LogRange, limit: int) -> _Page:
        """Return at most `limit` lines."""
        found = self._store.overview.log_page(which, self._only, limit)
        if not found:
            return _Page([], older=False, newer=False)
        unlimited = which._replace(after=None, before=None)
        before = unlimited._replace(before=found[0][1].id, last=True)
        after = unlimited._replace(after=found[-1][1].id, last=False)
        older, newer = (bool(self._store.overview.log_page(one, self._only, 1)) for one in (before, after))
        return _Page(found, older, newer)


class _Search:
    """Searches pages of log lines for a regular expression, which the database cannot do, until the time is over."""

    def __init__(self, store: Store, only: LogFilter, pattern: str) -> None:
        self._store = store
        self._only = only
        self._pattern = pattern

    def page(self, which: LogRange, limit: int) -> _Page:
        """Return at most `limit` matching lines, those that were found before the time was over."""
        deadline = time.monotonic() + _SECONDS_TO_SEARCH
        found: list[tuple[int, Log]] = []
        read: list[Log] = []  # the first and the last line of each page
        is_end = False
        place = which
        while not is_end and len(found) < limit and (not read or time.monotonic() < deadline):
            page = self._store.overview.log_page(place, self._only, _PAGE)
            is_end = len(page) < _PAGE
            if page:
                try:
                    more = self._matching(page, deadline)
                except TimeoutError as error:
                    if read:  # a search that begins with this page has more time for it
                        is_end = False
                        break
                    why = f"text: {error}: write it without repetitions inside of repetitions"
                    raise HTTPException(422, why) from None
                found = [*more, *found] if which.last else [*found, *more]
                read += [page[0][1], page[-1][1]]
                place = place._replace(before=page[0][1].id) if which.last else place._replace(after=page[-1][1].id)
        if not read:
            return _Page([], older=False, newer=False)
        first, last = min(read, key=_id), max(read, key=_id)
        if len(found) > limit and which.last:
            found, is_end = found[-limit:], False
            first = found[0][1]
        elif len(found) > limit:
            found, is_end = found[:limit], False
            last = found[-1][1]
        older, newer = (not is_end, which.before is not None) if which.last else (which.after is not None, not is_end)
        return _Page(found, older, newer, {"first": _place(first), "last": _place(last)})

    def _matching(self, page: list[tuple[int, Log]], deadline: float) -> list[tuple[int, Log]]:
        """Return the lines of a page that match. Raises TimeoutError if the expression takes too long."""
        texts = [line.text[:_LONGEST_SEARCHED] for _, line in page]
        return list(compress(page, matching(self._pattern, texts, max(_LEAST_SECONDS, deadline - time.monotonic()))))


def _around(store: Store, read: _Plain | _Search, which: LogRange, moment: float, limit: int) -> _Page:
    """Return lines before and after a time."""
    first = store.overview.first_line_at(which, moment)
    if first is None:
        return read.page(which._replace(last=True), limit)
    before = read.page(which._replace(before=first, last=True), limit // 2)
    after = read.page(which._replace(after=first - 1), limit - len(before.lines))
    parts = [part.searched for part in (before, after) if part.searched is not None]
    searched: SearchedPart | None = {"first": parts[0]["first"], "last": parts[-1]["last"]} if parts else None
    return _Page([*before.lines, *after.lines], before.older, after.newer, searched)


def _id(line: Log) -> int:
    return line.id


def _place(line: Log) -> LogPlace:
    return {"id": line.id, "time": line.written}


def _check_pattern(text: str) -> None:
    """Raise HTTPException if a text is not a regular expression."""
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise HTTPException(422, f"text: the regular expression cannot be read: {error}") from None


def _line(trial_id: int, line: Log) -> LogLine:
    """Return a log line as it is sent: a very long one is cut."""
    return {
        "id": line.id,
        "trial": trial_id,
        "attempt": line.attempt,
        "time": line.written,
        "level": line.level,
        "rank": line.rank,
        "stream": line.stream,
        "text": line.text[:_LONGEST_LINE],
        "cut": max(0, len(line.text) - _LONGEST_LINE),
        "finished": line.finished,
    }
