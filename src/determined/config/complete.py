"""What a configuration leaves open until an experiment is made: a name, a seed, a place for checkpoints."""

from __future__ import annotations

import random

from determined.config.experiment_model import ExperimentConfig, Reproducibility
from determined.config.storage import DirectoryStorage, LocalStorage

_SIZES = ("broad", "brief", "deep", "faint", "grand", "keen", "late", "mild", "plain", "quick", "slow", "tall")
_COLOURS = ("amber", "azure", "black", "coral", "green", "ivory", "lilac", "ochre", "red", "silver", "teal", "white")
_ANIMALS = ("badger", "crane", "dolphin", "finch", "heron", "ibex", "lynx", "marten", "otter", "plover", "seal", "wren")


def three_words(rng: random.Random) -> str:
    """A name that a person can say: `keen-teal-otter`."""
    return "-".join(rng.choice(words) for words in (_SIZES, _COLOURS, _ANIMALS))


def complete(config: ExperimentConfig, *, now: float, words: str, checkpoints: str) -> ExperimentConfig:
    """The configuration with nothing left open: `now` is the Unix time, `checkpoints` an absolute directory."""
    changes: dict[str, object] = {}
    if not config.name:
        changes["name"] = f"Experiment ({words})"
    if config.reproducibility.experiment_seed is None:
        changes["reproducibility"] = Reproducibility(experiment_seed=int(now) % 2**31)
    storage = config.checkpoint_storage
    if isinstance(storage, LocalStorage):
        changes["checkpoint_storage"] = DirectoryStorage.model_validate(
            {**storage.plain(), "type": "directory", "container_path": checkpoints}
        )
    return config.model_copy(update=changes)
