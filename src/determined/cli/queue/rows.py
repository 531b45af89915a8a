"""Show queued experiments as rows and JSON, and the lengths of other queues in the same store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from determined.cli.display.output import Field, iso_time
from determined.cli.display.safe_text import visible
from determined.cli.display.table import percent
from determined.cli.display.times import ago, time_text

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment
    from determined.store.store import Store
    from determined.store.substores.queue import Entry


class Queued(NamedTuple):
    """An experiment in the queue: its position in the scheduling order, and the slots it holds."""

    position: int
    entry: Entry
    experiment: Experiment
    slots: Sequence[int]


FIELDS: list[Field[Queued]] = [
    Field("Position", lambda row: row.position),
    Field("Experiment ID", lambda row: row.entry.experiment_id, rank=0),
    Field("Name", lambda row: row.experiment.name, long=True),
    Field("Priority", lambda row: row.entry.priority),
    Field("State", lambda row: row.experiment.state, rank=0),
    Field("Slots", lambda row: len(row.slots), rank=0),
    Field("Progress", lambda row: percent(row.experiment.progress)),
    Field("Added", lambda row: time_text(row.entry.added), on_terminal=lambda row: ago(row.entry.added)),
    Field("Max Slots", lambda row: row.entry.slots, shown="wide"),
    Field("Max Trials", lambda row: row.entry.max_trials, shown="wide"),
]


def queued_plain(row: Queued) -> dict[str, Any]:
    """Return an experiment in the queue as JSON data."""
    entry, experiment = row.entry, row.experiment
    return {
        "position": row.position,
        "experiment_id": entry.experiment_id,
        "name": experiment.name,
        "priority": entry.priority,
        "state": experiment.state,  # as in `det experiment list`; one that runs has slots
        "slots": [*row.slots],
        "max_slots": entry.slots,
        "max_trials": entry.max_trials,
        "progress": experiment.progress,
        "added": iso_time(entry.added),
        "host": entry.host,
        "owner": entry.owner,
    }


def other_queues_text(store: Store) -> str:
    """Return a line about the queues of other hosts and users in the same store; empty if there are none."""
    from determined.queue.notes import other_queues

    parts = [visible(part) for part in other_queues(store)]
    return f"In other queues of this store: {', '.join(parts)}" if parts else ""
