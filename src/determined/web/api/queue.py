"""`/api/queue`: what `det queue` shows."""

from __future__ import annotations

import socket

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.plural import counted
from determined.queue.daemon_start import SHUTTING_DOWN
from determined.queue.files import QueueFiles
from determined.queue.status import Status, read_status
from determined.store.process import this_user
from determined.store.store import Store
from determined.web.answers import Route
from determined.web.state import reading, state_of, version

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
    seen = version(request)
    host, user = socket.gethostname(), this_user()
    status = read_status(QueueFiles.of(state_of(request).connections.place))
    running = {} if status is None else status.running
    rows: list[QueueRow] = []
    with reading(request) as store:
        for position, entry in enumerate(store.queue.entries(host, user), start=1):
            experiment = store.experiments.get(entry.experiment_id)
            rows.append(
                {
                    "position": position,
                    "experiment": entry.experiment_id,
                    "name": experiment.name,
                    "priority": entry.priority,
                    "state": experiment.state,
                    "slots": list(running.get(entry.experiment_id, [])),
                    "max_slots": entry.slots,
                    "max_trials": entry.max_trials,
                    "progress": experiment.progress,
                    "added": entry.added,
                    "host": entry.host,
                    "owner": entry.owner,
                }
            )
        notes = _notes(store, status, host, user, waiting=bool(rows))
    slots = None if status is None else status.slots
    return {"version": seen, "rows": rows, "served": status is not None, "slots": slots, "notes": notes}


def _notes(store: Store, status: Status | None, host: str, user: str, *, waiting: bool) -> list[str]:
    """Return remarks about the queue: whether a daemon serves it, and the lengths of other queues."""
    notes = []
    if waiting and status is None:
        notes.append("No daemon serves the queue; resume with: det queue resume")
    if waiting and status is not None and status.leaving:
        notes.append(f"{SHUTTING_DOWN[0].upper()}{SHUTTING_DOWN[1:]}")
    for (other_host, owner), count in store.queue.lengths().items():
        if (other_host, owner) != (host, user):
            whose = "" if owner == user else f" for user {owner}"
            notes.append(f"{counted(count, 'experiment waits', 'experiments wait')} on host {other_host}{whose}")
    return notes
