"""The configuration and code of an experiment that is created from another one, with changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from determined.config.derive import derive
from determined.config.experiment import LoadedExperiment, load_experiment
from determined.config.stored import StoredConfig
from determined.errors import DeterminedError
from determined.experiment.creation.current_config import present_config
from determined.experiment.files import ExperimentFiles, experiment_dir
from determined.store.experiment_records import Experiment
from determined.store.ranking import best_checkpoints
from determined.store.store import Store


@dataclass(frozen=True)
class Fork:
    """The arguments of `create_experiment` for a fork. `note` is a remark for the user, or None."""

    loaded: LoadedExperiment
    parent: Experiment
    directory: Path
    in_place: bool
    note: str | None


def plan_fork(
    store: Store,
    experiment_id: int,
    changes: Sequence[dict[str, Any]],
    *,
    name: str | None = None,
    from_checkpoint: str | None = None,
) -> Fork:
    """Return the validated configuration of a fork and the place of its code. Nothing is written.

    The current configuration of the parent is changed by each of `changes` in order. `from_checkpoint` is "best",
    "latest" or the id of a checkpoint whose weights the new experiment starts from.
    """
    parent = store.experiments.get(experiment_id)
    files = ExperimentFiles(_directory(parent))
    config = present_config(files, parent, store.experiments.journal(experiment_id))
    start = StoredConfig(config).searcher.source_checkpoint_uuid  # set even if the user named a trial
    start = start if from_checkpoint is None else _checkpoint(store, parent, from_checkpoint)
    # Later changes win: the parent's values first, the given ones last.
    in_order: list[dict[str, Any]] = [
        {"name": parent.name, "description": parent.description or None, "labels": parent.labels or None},
        # The checkpoint is named explicitly, so that the trial from which it came is not looked up again.
        {"searcher": {"source_checkpoint_uuid": start, "source_trial_id": None}},
        *changes,
        {} if name is None else {"name": name},
    ]
    for change in in_order:
        config = derive(config, change)
    loaded = load_experiment(config)
    place = files.place
    if place is None:
        return Fork(loaded, parent, files.code, False, None)
    if not place.is_dir():
        raise DeterminedError(f"experiment {parent.id} works in {place}, but that directory no longer exists")
    note = f"The new experiment works in {place}, like experiment {parent.id}, with the code that is there now."
    return Fork(loaded, parent, place, True, note)


def _directory(parent: Experiment) -> Path:
    """Return the directory with an experiment's code and configuration, secrets included; raise if there is none."""
    directory = None if parent.is_standalone else experiment_dir(parent.key)
    if directory is None or not directory.is_dir():
        why = "it is a standalone run" if parent.is_standalone else "its files are not on this machine"
        raise DeterminedError(f"experiment {parent.id} has no copy of its code and configuration: {why}")
    return directory


def _checkpoint(store: Store, parent: Experiment, wanted: str) -> str:
    """Return the id of the checkpoint to start from; raise if it cannot be loaded."""
    if wanted not in ("best", "latest"):
        state = store.upkeep.checkpoint(wanted).state
        if state != "ACTIVE":
            raise DeterminedError(f"checkpoint {wanted} cannot be loaded: it is {state}")
        return wanted
    loadable = [checkpoint for checkpoint in store.experiments.checkpoints(parent.id) if checkpoint.state == "ACTIVE"]
    found = best_checkpoints(loadable, parent.metric, parent.smaller_is_better) if wanted == "best" else loadable
    if not found:
        what = "with a number for its metric" if loadable else "that can be loaded"
        raise DeterminedError(f"experiment {parent.id} has no checkpoint {what}")
    return found[0].checkpoint_id
