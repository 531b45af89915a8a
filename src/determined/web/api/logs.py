"""`/api/logs`: log lines of a trial, or of all trials of an experiment."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from typing_extensions import TypedDict

from determined.web.answers import Route, not_yet

router = APIRouter(route_class=Route)


class LogLine(TypedDict):
    """A log line. Ids grow in the order in which lines reached the store; `cut` characters at its end are left out."""

    id: int
    trial: int
    attempt: int
    time: float
    level: str | None
    rank: int
    stream: str
    text: str
    cut: int


class LogLines(TypedDict):
    """Log lines in order, and whether there are matching ones before and after them."""

    lines: list[LogLine]
    older: bool
    newer: bool


@router.get("/api/logs")
def logs(
    request: Request,
    trial: int | None = None,
    experiment: int | None = None,
    after: int | None = None,
    before: int | None = None,
    level: str | None = None,
    rank: int | None = None,
    stream: str | None = None,
    text: str | None = None,
    regex: bool = False,
    around_time: float | None = None,
    limit: Annotated[int, Query(ge=1, le=5000)] = 500,
) -> LogLines:
    """Return lines after or before an id, around a time, or the newest ones."""
    raise not_yet()
