"""What `--json` prints for an experiment in the queue: these keys stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from determined.cli.output import iso_time

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment
    from determined.store.queueing import Entry


def entry_plain(entry: Entry, position: int, experiment: Experiment, slots: Sequence[int]) -> dict[str, Any]:
    return {
        "position": position,
        "experiment_id": entry.experiment_id,
        "name": experiment.name,
        "priority": entry.priority,
        "state": experiment.state,  # as in `det experiment list`; one that runs has slots
        "slots": [*slots],
        "max_slots": entry.slots,
        "max_trials": entry.max_trials,
        "progress": experiment.progress,
        "added": iso_time(entry.added),
        "host": entry.host,
        "owner": entry.owner,
    }
