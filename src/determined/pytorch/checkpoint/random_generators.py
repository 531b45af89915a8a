"""Read, restore and seed the random generators of a process, as tensors and numbers that checkpoints can hold."""

from __future__ import annotations

import logging
import random
from typing import Any

import numpy as np
import torch

logger = logging.getLogger("determined.pytorch")


def seed_everything(seed: int) -> None:
    """Seed Python, numpy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # numpy accepts 32 bits only
    torch.manual_seed(seed)


def seed_from_torch() -> int:
    """Return a seed derived from the state of torch's global generator, without changing that state."""
    # A copy of the generator draws: the program's own sequence of random numbers stays as it is.
    generator = torch.Generator()
    generator.set_state(torch.get_rng_state())
    return int(torch.randint(2**31, (), generator=generator))


def get_state(device: torch.device) -> dict[str, Any]:
    """Return the states of the generators of Python, numpy, torch and, unless it is the CPU, of `device`."""
    version, words, gauss = random.getstate()
    # Legacy form: the state of the global MT19937 generator as plain values.
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    state: dict[str, Any] = {
        "cpu_rng_state": torch.get_rng_state(),
        "np_rng_state": {
            "bit_generator": str(name),
            # Wider than the 32 bits of a word, since torch supports few operations on unsigned types.
            "keys": torch.from_numpy(np.asarray(keys).astype(np.int64)),
            "position": int(position),
            "has_gauss": int(has_gauss),
            "cached_gaussian": float(cached),
        },
        "random_rng_state": {
            "version": version,
            "words": torch.tensor(words, dtype=torch.int64),
            "gauss": gauss,
        },
    }
    # Draws on an accelerator, for example dropout, come from its own generator.
    if device.type != "cpu":
        state["gpu_rng_state"] = torch.get_device_module(device).get_rng_state()
    return state


def set_state(state: dict[str, Any], device: torch.device) -> None:
    """Restore the generators; states of old releases (tuples) are accepted, too."""
    torch.set_rng_state(state["cpu_rng_state"])
    stored = state["np_rng_state"]
    if isinstance(stored, dict):
        keys = stored["keys"].numpy().astype(np.uint32)
        stored = (
            stored["bit_generator"],
            keys,
            stored["position"],
            stored["has_gauss"],
            stored["cached_gaussian"],
        )
    np.random.set_state(stored)
    stored = state["random_rng_state"]
    if isinstance(stored, dict):
        stored = (stored["version"], tuple(stored["words"].tolist()), stored["gauss"])
    random.setstate(stored)
    if "gpu_rng_state" in state:
        if device.type != "cpu":
            torch.get_device_module(device).set_rng_state(state["gpu_rng_state"])
        else:
            logger.warning("the checkpoint holds the state of a GPU's random generator, and there is no GPU here")
