"""JSON data of an experiment in the queue. The keys are stable, because scripts rely on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from determined.cli.display.output import iso_time

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment
    from determined.store.queue import Entry


class Queued(NamedTuple):
    """An experiment in the queue: its position in the scheduling order, and the slots it holds."""

    position: int
    entry: Entry
    experiment: Experiment
    slots: Sequence[int]


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
