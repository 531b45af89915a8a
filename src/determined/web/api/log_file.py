"""`/api/logs/file`: the complete log of a trial or of all trials of an experiment as a text file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException

from determined.store.records import Log, LogFilter
from determined.store.sql.logs import LogRange
from determined.web.answers import Route
from determined.web.identifiers import Id
from determined.web.state import reading

router = APIRouter(route_class=Route)

_PAGE = 5000  # lines that are read at once, which bounds the memory for a log of any length


@router.get("/api/logs/file", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def log_file(request: Request, trial: Id | None = None, experiment: Id | None = None) -> Response:
    """Return all lines of a log, with their times in UTC, in the order in which they reached the store."""
    if (trial is None) == (experiment is None):
        raise HTTPException(422, "name either a trial or an experiment")
    with reading(request) as store:
        if trial is not None:
            store.experiments.trial(trial)
        elif experiment is not None:
            store.experiments.get(experiment)
    name = f"experiment_{experiment}_log.txt" if trial is None else f"trial_{trial}_log.txt"
    return StreamingResponse(
        _text(request, LogRange(trial_id=trial, experiment_id=experiment)),
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
