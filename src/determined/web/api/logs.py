"""`/api/logs`: log lines of a trial, or of all trials of an experiment."""

from __future__ import annotations

import re
import time
from itertools import compress
from typing import Annotated

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
_LEAST_SECONDS = 0.5  # for each page, even at the end of the search: a process has to start
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


class LogLines(TypedDict):
    """Log lines in order, and whether there are matching ones before and after them.

    `older` is also true if the search for a regular expression has run out of time.
    """

    lines: list[LogLine]
    older: bool
    newer: bool


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
        search = _Search(store, only, pattern)
        if around_time is not None:
            found = search.around(which, around_time, limit)
        else:
            last = after is None
            found = search.page(which._replace(after=after, before=before, last=last), limit)
        older = bool(found) and bool(search.page(which._replace(before=found[0][1].id, last=True), 1))
        newer = bool(found) and bool(search.page(which._replace(after=found[-1][1].id), 1))
    return {"lines": [_line(*one) for one in found], "older": older or search.gave_up, "newer": newer}


class _Search:
    """Reads pages of log lines, and filters them by a regular expression, which the database cannot do."""

    def __init__(self, store: Store, only: LogFilter, pattern: str | None) -> None:
        self._store = store
        self._only = only
        self._pattern = pattern
        self._deadline = time.monotonic() + _SECONDS_TO_SEARCH
        self.gave_up = False

    def page(self, which: LogRange, limit: int) -> list[tuple[int, Log]]:
        """Return at most `limit` matching lines; set `gave_up` if the time was over before all were searched."""
        if self._pattern is None:
            return self._store.overview.log_page(which, self._only, limit)
        found: list[tuple[int, Log]] = []
        while len(found) < limit:
            page = self._store.overview.log_page(which, self._only, _PAGE)
            more = self._matching(self._pattern, page)
            found = [*more, *found] if which.last else [*found, *more]
            if len(page) < _PAGE:
                break
            if time.monotonic() > self._deadline:
                self.gave_up = True
                break
            which = which._replace(before=page[0][1].id) if which.last else which._replace(after=page[-1][1].id)
        return found[-limit:] if which.last else found[:limit]

    def _matching(self, pattern: str, page: list[tuple[int, Log]]) -> list[tuple[int, Log]]:
        """Return the lines of a page that match a regular expression."""
        if not page:
            return []
        texts = [line.text[:_LONGEST_SEARCHED] for _, line in page]
        try:
            found = matching(pattern, texts, max(_LEAST_SECONDS, self._deadline - time.monotonic()))
        except TimeoutError as error:
            raise HTTPException(422, f"text: {error}: write it without repetitions inside of repetitions") from None
        return list(compress(page, found))

    def around(self, which: LogRange, moment: float, limit: int) -> list[tuple[int, Log]]:
        """Return lines before and after a time."""
        first = self._store.overview.first_line_at(which, moment)
        if first is None:
            return self.page(which._replace(last=True), limit)
        before = self.page(which._replace(before=first, last=True), limit // 2)
        return [*before, *self.page(which._replace(after=first - 1), limit - len(before))]


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
