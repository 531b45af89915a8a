"""The checkpoints of an experiment that a new retention policy does not keep: find them, and delete them."""

from __future__ import annotations

from typing import NamedTuple

from determined.checkpoint_storage import retention
from determined.errors import CheckpointInUse
from determined.experiment.checkpoints.storage_lookup import storage_of
from determined.experiment.deletion import delete_checkpoints
from determined.store.experiment_records import Experiment
from determined.store.records import StoredCheckpoint
from determined.store.states import TRIAL_ENDED
from determined.store.store import Store


class Removal(NamedTuple):
    """The ids of the checkpoints that were deleted, and for the others the reason why they are in use."""

    removed: list[str]
    kept: dict[str, str]


def surplus_of(store: Store, experiment: Experiment, policy: retention.Policy) -> list[StoredCheckpoint]:
    """Return the checkpoints that the policy would delete; those to keep are read and verified first."""
    trials = store.experiments.trials(experiment.id)
    registered = store.registry.registered(experiment.id)
    sources = {trial.source_checkpoint_id for trial in trials}
    rows = {
        row.checkpoint_id: row
        for row in reversed(store.experiments.checkpoints(experiment.id))
        if row.state == "ACTIVE"
    }
    stored = [
        retention.candidate(
            row,
            experiment.metric,
            in_use=row.checkpoint_id in sources,
            registered=row.checkpoint_id in registered,
        )
        for row in rows.values()
    ]
    places = {row.storage: storage_of(experiment, row.storage) for row in rows.values()}
    inspection = retention.Inspection(lambda checkpoint: places[rows[checkpoint.checkpoint_id].storage])
    ended = {trial.id for trial in trials if trial.state in TRIAL_ENDED}
    return [rows[found.checkpoint_id] for found in retention.surplus(stored, policy, inspection.is_good, ended=ended)]


def remove(store: Store, rows: list[StoredCheckpoint]) -> Removal:
    """Delete checkpoints that are not in use."""
    done = Removal([], {})
    for row in rows:
        # One by one: a checkpoint that came into use meanwhile must not prevent the others.
        try:
            delete_checkpoints(store, [row.checkpoint_id])
            done.removed.append(row.checkpoint_id)
        except CheckpointInUse as error:
            done.kept[row.checkpoint_id] = str(error)
    return done
