"""`/api/queue`: the experiments in the queue, as `det queue` shows them."""

from __future__ import annotations

import socket
from collections import Counter

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.queue.files import QueueFiles
from determined.queue.notes import daemon_notes, other_queues
from determined.queue.status import read_status
from determined.store.process import this_user
from determined.web.answers import Route
from determined.web.state import reading, state_of, version
from determined.web.tables.trial_rows import trial_status

router = APIRouter(route_class=Route)


class QueueRow(TypedDict):
    """An experiment in the queue. It runs if it holds slots. `states` counts its trials by state."""

    position: int
    experiment: int
    name: str
    priority: int
    state: str
    states: dict[str, int]
    slots: list[int]
    max_slots: int | None
    max_trials: int | None
    progress: float | None
    added: float
    host: str
    owner: str


class QueueRows(TypedDict):
    """The user's experiments in the queue of this machine, in scheduling order, and notes about the queue.

    `served` says whether a daemon runs the queue.
    """

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
            trials = store.overview.trials(experiment_id=entry.experiment_id, archived=True, latest=False)
            rows.append(
                {
                    "position": position,
                    "experiment": entry.experiment_id,
                    "name": experiment.name,
                    "priority": entry.priority,
                    "state": experiment.state,
                    "states": dict(Counter(trial_status(trial)[0] for trial in trials)),
                    "slots": list(running.get(entry.experiment_id, [])),
                    "max_slots": entry.slots,
                    "max_trials": entry.max_trials,
                    "progress": experiment.progress,
                    "added": entry.added,
                    "host": entry.host,
                    "owner": entry.owner,
                }
            )
        notes = [*daemon_notes(status, waiting=bool(rows)), *other_queues(store)]
    slots = None if status is None else status.slots
    return {"version": seen, "rows": rows, "served": status is not None, "slots": slots, "notes": notes}
