"""The files and rows that a deletion would remove, with their sizes, for a question to the user."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from determined.experiment.deletion import own_directories
from determined.sentences import counted
from determined.store.standalone_runs import is_finished_or_interrupted
from determined.store.store import Store


class DeletedPart(NamedTuple):
    """Something that would be deleted, and its size in bytes."""

    name: str
    size: int


@dataclass(frozen=True)
class DeletionPlan:
    """The parts that a deletion would remove. `refused` says why nothing can be deleted; it is empty otherwise."""

    question: str
    parts: tuple[DeletedPart, ...]
    refused: tuple[str, ...]


def deletion_question(store: Store, experiment_id: int) -> str:
    """Return the question whether to delete an experiment, with the number of its trials, checkpoints and outputs."""
    experiment = store.experiments.get(experiment_id)
    saved = sum(checkpoint.state != "DELETED" for checkpoint in store.experiments.checkpoints(experiment_id))
    uploaded = sum(len(output.resources) for output in store.outputs.of_experiment(experiment_id))
    trials, checkpoints = counted(experiment.trial_count, "trial"), counted(saved, "checkpoint")
    contents = f"{trials} and {checkpoints}"
    if uploaded:
        contents = f"{trials}, {checkpoints} and {counted(uploaded, 'file')} of outputs"
    return f"Delete experiment {experiment.id} ({experiment.name}, {experiment.state}) with {contents}?"


def plan_experiment_deletion(store: Store, experiment_id: int) -> DeletionPlan:
    """Return what `delete_experiment` would delete, with sizes. Nothing is changed."""
    experiment = store.experiments.get(experiment_id)
    checkpoints = [row for row in store.experiments.checkpoints(experiment_id) if row.state != "DELETED"]
    parts = [
        DeletedPart(f"checkpoint {row.checkpoint_id}", sum(row.resources.values()))
        for row in checkpoints
        if not row.borrowed
    ]
    for output in store.outputs.of_experiment(experiment_id):
        if not output.borrowed:
            parts.append(DeletedPart(f"output {output.uuid}", sum(output.resources.values())))
    directories = [] if experiment.borrowed else own_directories(store, experiment)
    parts += [DeletedPart(str(path), size_of_tree(path)) for path in directories if path.is_dir()]
    refused = list(store.upkeep.why_needed(checkpoints, by_others_than=experiment_id).values())
    if not is_finished_or_interrupted(experiment):
        refused.insert(0, f"experiment {experiment.id} is {experiment.state}: cancel or kill it first")
    return DeletionPlan(deletion_question(store, experiment_id), tuple(parts), tuple(refused))


def plan_checkpoint_deletion(store: Store, checkpoint_ids: Sequence[str]) -> DeletionPlan:
    """Return what `delete_checkpoints` would delete, with sizes. Nothing is changed."""
    rows = [store.upkeep.checkpoint(checkpoint_id) for checkpoint_id in dict.fromkeys(checkpoint_ids)]
    present = [row for row in rows if row.state != "DELETED"]
    parts = [DeletedPart(f"checkpoint {row.checkpoint_id}", sum(row.resources.values())) for row in present]
    refused = tuple(store.upkeep.why_needed(present).values())
    return DeletionPlan(f"Delete {counted(len(present), 'checkpoint')}?", tuple(parts), refused)


def size_of_tree(directory: Path) -> int:
    """Return the bytes of the files below a directory. Links are not followed; what vanishes meanwhile has none."""
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_size
            except FileNotFoundError:
                continue
    return total
