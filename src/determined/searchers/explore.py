"""Perturbs the hyperparameters of a trial, as population based training does."""

from __future__ import annotations

import math
from typing import Any

from determined.config.hyperparameters import Choice, Const, Leaf, LogRange, draw, leaves, nest
from determined.config.random_stream import RandomStream


def explore(
    space: dict[str, Any],
    hparams: dict[str, Any],
    stream: RandomStream,
    *,
    resample_probability: float,
    perturb_factor: float,
) -> dict[str, Any]:
    """Return perturbed hyperparameters.

    Each value independently is either resampled or multiplied by 1 plus or minus the factor. Constants are kept, and so
    are choices that are not resampled.
    """
    changed = []
    # In sorted order, so that the same random words go to the same hyperparameters after a restart.
    for path, found in leaves(space):
        value = found.value if isinstance(found, Const) else _value_at(hparams, path)
        if not isinstance(found, Const):
            if stream.unit() < resample_probability:
                value = draw(found, stream)
            elif not isinstance(found, Choice):
                value = _perturb(found, value, perturb_factor, grows=stream.integer(1) == 1)
        changed.append((path, value))
    return nest(changed)


def _value_at(hparams: dict[str, Any], path: tuple[str, ...]) -> Any:
    """Return the value at a path in nested hyperparameters."""
    value: Any = hparams
    for name in path:
        value = value[name]
    return value


def _perturb(found: Leaf, value: float, factor: float, *, grows: bool) -> float:
    """Return a value increased or decreased by the factor, within the bounds of its range."""
    value = value * (1 + factor if grows else 1 - factor)
    # The value itself is multiplied, not its exponent, so the bounds have to be values too.
    if isinstance(found, LogRange):
        low, high = found.bounds()
        return min(max(value, low), high)
    assert not isinstance(found, (Const, Choice))
    # Rounded in the direction of the change; rounding to nearest would often give the old integer again.
    if isinstance(found.low, int) and isinstance(found.high, int):
        value = math.ceil(value) if grows else math.floor(value)
    return min(max(value, found.low), found.high)
