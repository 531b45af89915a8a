"""Fills in the values that a configuration may leave out: name, seed and checkpoint directory."""

from __future__ import annotations

import random

from determined.config.blocks.experiment import ExperimentConfig, Reproducibility
from determined.config.blocks.storage import LocalStorage, storage_model
from determined.config.storage_directory import with_directory

_SIZES = ("broad", "brief", "deep", "faint", "grand", "keen", "late", "mild", "plain", "quick", "slow", "tall")
_COLOURS = ("amber", "azure", "black", "coral", "green", "ivory", "lilac", "ochre", "red", "silver", "teal", "white")
_ANIMALS = ("badger", "crane", "dolphin", "finch", "heron", "ibex", "lynx", "marten", "otter", "plover", "seal", "wren")


def three_words(rng: random.Random) -> str:
    """Return a random name that is easy to say, such as `keen-teal-otter`."""
    return "-".join(rng.choice(words) for words in (_SIZES, _COLOURS, _ANIMALS))


def complete(config: ExperimentConfig, *, now: float, words: str, checkpoints: str) -> ExperimentConfig:
    """Return the configuration with all values set. `now` is the Unix time, `checkpoints` an absolute directory."""
    changes: dict[str, object] = {}
    if not config.name:
        changes["name"] = f"Experiment ({words})"
    if config.reproducibility.experiment_seed is None:
        # Below 2**31, the range of `Seed`.
        changes["reproducibility"] = Reproducibility(experiment_seed=int(now) % 2**31)
    storage = config.checkpoint_storage
    if isinstance(storage, LocalStorage):
        # The stored configuration names the directory: the data directory may be another one when the experiment
        # continues.
        block = with_directory(storage.plain(), checkpoints)
        changes["checkpoint_storage"] = storage_model(block["type"]).model_validate(block)
    return config.model_copy(update=changes)
