"""`/api/queue`: what `det queue` shows."""

from __future__ import annotations

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.web.answers import Route, not_yet

router = APIRouter(route_class=Route)


class QueueRow(TypedDict):
    """An experiment in the queue. It runs if it holds slots."""

    position: int
    experiment: int
    name: str
    priority: int
    state: str
    slots: list[int]
    max_slots: int | None
    max_trials: int | None
    progress: float | None
    added: float
    host: str
    owner: str


class QueueRows(TypedDict):
    """The user's experiments in the queue of this machine, in scheduling order, and remarks about it."""

    version: str
    rows: list[QueueRow]
    served: bool
    slots: int | None
    notes: list[str]


@router.get("/api/queue")
def queue(request: Request) -> QueueRows:
    """Return the experiments in the queue of this machine."""
    raise not_yet()
