"""Open the storage of a checkpoint from the store's record and the experiment's configuration."""

from __future__ import annotations

from typing import Any

from determined.checkpoint_storage.base import CheckpointStorage
from determined.checkpoint_storage.build import build_from_argument, build_from_config
from determined.config.stored import StoredConfig
from determined.errors import (
    InvalidExperimentConfig,
    InvalidExperimentException,
    Mistake,
    NoDirectStorageAccess,
)
from determined.experiment.files import ExperimentFiles, experiment_dir
from determined.store.experiment_records import Experiment


def configured_storage(config: StoredConfig) -> CheckpointStorage:
    """Return the storage that a configuration names; raise `InvalidExperimentConfig` if it is invalid."""
    block = config.checkpoint_storage.plain
    try:
        return build_from_config(block) if block else build_from_argument(None)
    except ValueError as error:
        text = str(error)
        # Some messages name the block already.
        message = text if "checkpoint_storage" in text else f"checkpoint_storage: {text}"
        raise InvalidExperimentConfig([Mistake("checkpoint_storage", None, text)], text=message) from None


def storage_of(experiment: Experiment, place: str) -> CheckpointStorage:
    """Return the storage in which a checkpoint of an experiment was recorded, by its recorded name.

    The store has no secrets: the configuration with credentials is read from the experiment's files, if they are on
    this machine.
    """
    try:
        block = _configured(experiment)
        if block:
            configured = build_from_config(block)
            # Compared by name: the configuration may have changed since the checkpoint was recorded.
            if configured.name == place:
                return configured
        # The recorded name has no credentials; for most object stores the environment provides them.
        return build_from_argument(place)
    except ValueError as error:
        raise NoDirectStorageAccess(
            f"the checkpoints of experiment {experiment.id} are in {place}, which cannot be opened from here: {error}"
        ) from error


def _configured(experiment: Experiment) -> dict[str, Any]:
    """Return the `checkpoint_storage` block of an experiment, with credentials if they are on this machine."""
    directory = None if experiment.is_standalone else experiment_dir(experiment.key)
    if directory is None or not directory.is_dir():
        config = experiment.config
    else:
        try:
            config = ExperimentFiles(directory).read_config()
        except InvalidExperimentException:  # only some of the files are here
            config = experiment.config
    return StoredConfig(config).checkpoint_storage.plain
