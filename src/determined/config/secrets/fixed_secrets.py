"""Masks secrets among the fixed hyperparameters of a search in stored data, and restores them from the configuration.

Searched values are stored unmasked: the store is the only place from which a resumed search can read what each trial
was assigned.
"""

from __future__ import annotations

import copy
import functools
import json
from typing import Any

from determined.config.hyperparameters import Const, leaves
from determined.config.secrets.masking import MASK, inner_name, mask_secrets

Path = tuple[str, ...]


def mask_fixed(hparams: dict[str, Any], space: dict[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters of a trial with fixed secrets masked, for storing and showing."""
    masked = copy.deepcopy(hparams)
    for path, leaf in leaves(space):
        block = _block(masked, path)
        if isinstance(leaf, Const) and block is not None:
            name = functools.reduce(inner_name, path, "")
            # A block named `secrets` is masked completely, independent of the names of its fields.
            block[path[-1]] = MASK if name == "secrets" else mask_secrets(block[path[-1]], name)
    return masked


def unmask_fixed(hparams: dict[str, Any], space: dict[str, Any]) -> dict[str, Any]:
    """Return stored hyperparameters with masked values restored from the search space of the configuration."""
    # A search without masked values, the usual case, needs no copy.
    if MASK not in json.dumps(hparams):
        return hparams
    restored = copy.deepcopy(hparams)
    for path, leaf in leaves(space):
        block = _block(restored, path)
        # A value may contain the mask in part, for example in a URL.
        if isinstance(leaf, Const) and block is not None and MASK in json.dumps(block[path[-1]]):
            block[path[-1]] = leaf.value
    return restored


def _block(hparams: dict[str, Any], path: Path) -> dict[str, Any] | None:
    """Return the map that contains the last name of a path, or None if the path does not exist."""
    inner: Any = hparams
    for name in path[:-1]:
        inner = inner.get(name) if isinstance(inner, dict) else None
    return inner if isinstance(inner, dict) and path[-1] in inner else None
