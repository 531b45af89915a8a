"""`/api/trials/{id}/log` and `/api/experiments/{id}/log`: complete logs as text files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from determined.store.records import Log, LogFilter
from determined.store.sql.logs import LogRange
from determined.web.answers import Route
from determined.web.identifiers import Id
from determined.web.state import reading

router = APIRouter(route_class=Route)

_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}}}}  # for the OpenAPI document
_PAGE = 5000  # lines that are read at once, which bounds the memory for a log of any length


@router.get("/api/trials/{trial_id}/log", response_class=Response, responses=_TEXT)
def log_of_trial(request: Request, trial_id: Id) -> Response:
    """Return all lines of the log of a trial, with their times in UTC."""
    with reading(request) as store:
        store.experiments.trial(trial_id)
    return _file(request, LogRange(trial_id=trial_id), f"trial_{trial_id}_log.txt")


@router.get("/api/experiments/{experiment_id}/log", response_class=Response, responses=_TEXT)
def log_of_experiment(request: Request, experiment_id: Id) -> Response:
    """Return all lines of the logs of an experiment's trials, in the order in which they reached the store."""
    with reading(request) as store:
        store.experiments.get(experiment_id)
    return _file(request, LogRange(experiment_id=experiment_id), f"experiment_{experiment_id}_log.txt")


def _file(request: Request, which: LogRange, name: str) -> Response:
    """Return the answer that a browser saves as a text file."""
    return StreamingResponse(
        _text(request, which),
        media_type="text/plain; charset=utf-8",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )


def _text(request: Request, which: LogRange) -> Iterator[bytes]:
    """Yield the lines of a log in parts. No connection is kept while the client receives one."""
    while True:
        with reading(request) as store:
            page = store.overview.log_page(which, LogFilter(), _PAGE)
        if page:
            named = which.trial_id is None
            text = "".join(f"{_line(line, trial_id if named else None)}\n" for trial_id, line in page)
            yield text.encode(errors="backslashreplace")
        if len(page) < _PAGE:
            return
        which = which._replace(after=page[-1][1].id)


def _line(line: Log, trial_id: int | None) -> str:
    """Return a line with its time, its trial if `trial_id` is given, and its rank."""
    written = datetime.fromtimestamp(line.written, UTC).isoformat(timespec="milliseconds")
    trial = "" if trial_id is None else f" [trial {trial_id}]"
    return f"[{written}]{trial} [rank={line.rank}] {line.text}"
