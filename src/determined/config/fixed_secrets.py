"""Secrets among the fixed hyperparameters of a search: masked in what is stored, and read again from the configuration.

Searched values are stored as they are: the store is where a runner that goes on with a search finds what each trial was
given, and no other place has it.
"""

from __future__ import annotations

import copy
import functools
import json
from typing import Any

from determined.config.hyperparameters import Const, leaves
from determined.config.masking import MASK, inner_name, mask_secrets

Path = tuple[str, ...]


def mask_fixed(hparams: dict[str, Any], space: dict[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters of a trial as they are stored and shown."""
    masked = copy.deepcopy(hparams)
    for path, leaf in leaves(space):
        block = _block(masked, path)
        if isinstance(leaf, Const) and block is not None:
            name = functools.reduce(inner_name, path, "")
            block[path[-1]] = MASK if name == "secrets" else mask_secrets(block[path[-1]], name)
    return masked


def unmask_fixed(hparams: dict[str, Any], space: dict[str, Any]) -> dict[str, Any]:
    """Return what a trial trains with, from what is stored and the space of the configuration with its secrets."""
    if MASK not in json.dumps(hparams):
        return hparams
    restored = copy.deepcopy(hparams)
    for path, leaf in leaves(space):
        block = _block(restored, path)
        if isinstance(leaf, Const) and block is not None and MASK in json.dumps(block[path[-1]]):
            block[path[-1]] = leaf.value
    return restored


def _block(hparams: dict[str, Any], path: Path) -> dict[str, Any] | None:
    """Return the map that holds the last name of a path; None if it is not there."""
    inner: Any = hparams
    for name in path[:-1]:
        inner = inner.get(name) if isinstance(inner, dict) else None
    return inner if isinstance(inner, dict) and path[-1] in inner else None
