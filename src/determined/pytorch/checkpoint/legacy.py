"""Convert checkpoints of earlier releases to the current format, by pure functions."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch

_OLD_KEYS = {
    "model_state_dict": "models_state_dict",
    "optimizer_state_dict": "optimizers_state_dict",
    "lr_scheduler": "lr_schedulers_state_dict",
}


def modernise(checkpoint: dict[str, Any], models: int, optimizers: int, schedulers: int) -> dict[str, Any]:
    """Return a checkpoint with the keys of releases up to 0.12.10, which held one object each, as lists of one.

    The counts are those of the trial's objects: RuntimeError is raised if the trial has more than one.
    """
    counts = dict(zip(_OLD_KEYS, (models, optimizers, schedulers), strict=True))
    modern = dict(checkpoint)
    for old, new in _OLD_KEYS.items():
        if old not in modern:
            continue
        if new in modern:
            # Which of the two to load cannot be decided, and the wrong one would lose weights.
            raise RuntimeError(f"the checkpoint holds both {old!r} and {new!r}")
        if counts[old] > 1:
            raise RuntimeError(
                f"the checkpoint holds one state under {old!r}, and the trial has {counts[old]} objects to restore"
            )
        modern[new] = [modern.pop(old)]
    return modern


def state_of(stored: dict[str, Any]) -> dict[str, Any]:
    """Return the counters of a checkpoint of any release under their current names."""
    modern = dict(stored)
    if "batches_trained" not in modern:
        # The counter was `latest_batch` in 0.17 and `steps_completed` after it.
        modern["batches_trained"] = modern.get("steps_completed", modern.get("latest_batch", 0)) or 0
    return modern


def without_prefix(state_dict: dict[str, Any], prefix: str = "module.") -> dict[str, Any]:
    """Return weights saved from a data-parallel wrapper under the names of the unwrapped model."""
    # Only if every name has the prefix: otherwise it belongs to a submodule, not to a wrapper.
    if not state_dict or not all(key.startswith(prefix) for key in state_dict):
        return state_dict
    bare = OrderedDict((key.removeprefix(prefix), value) for key, value in state_dict.items())
    # torch keeps the versions of layers in this attribute; load_state_dict reads it to convert states of old layers.
    layers = getattr(state_dict, "_metadata", {})
    bare._metadata = {  # type: ignore[attr-defined]
        name.removeprefix(prefix): value
        for name, value in layers.items()
        if name.startswith(prefix) or name == prefix[:-1]
    }
    return bare


def load_weights(model: torch.nn.Module, state_dict: dict[str, Any]) -> None:
    """Load weights into an unwrapped model; the names may have the prefix of a data-parallel wrapper."""
    # Names that fit are loaded as they are: a model may have a submodule that is called `module`.
    if state_dict.keys() != model.state_dict().keys():
        state_dict = without_prefix(state_dict)
    model.load_state_dict(state_dict)
