"""Save and restore the random generators at the start of a pass over the data, to reproduce the order of the pass."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch

from determined.pytorch.checkpoint import random_generators

PassStart: TypeAlias = dict[str, Any]

_CPU = torch.device("cpu")  # loaders and samplers draw from CPU generators


def pass_start(*owners: Any) -> PassStart:
    """Return the states of the global generators and of the `generator` attributes of these loaders or samplers."""
    return {
        "program": random_generators.get_state(_CPU),
        "own": [generator.get_state() for generator in _generators(owners)],
    }


def put_back(start: PassStart, *owners: Any) -> None:
    """Restore the generators from what `pass_start` returned."""
    random_generators.set_state(start["program"], _CPU)
    # Not strict: the loader may have got another generator since the checkpoint was saved.
    for generator, state in zip(_generators(owners), start["own"], strict=False):
        generator.set_state(state)


def _generators(owners: tuple[Any, ...]) -> list[torch.Generator]:
    """Return the torch generators that loaders or samplers have as their attribute `generator`."""
    found = (getattr(owner, "generator", None) for owner in owners)
    return [generator for generator in found if isinstance(generator, torch.Generator)]


@contextmanager
def generators_kept(device: torch.device = _CPU) -> Iterator[None]:
    """Restore the global generators at the end of the block, so that draws inside do not affect the program."""
    before = random_generators.get_state(device)
    try:
        yield
    finally:
        random_generators.set_state(before, device)


def with_first_item(items: Iterator[Any]) -> Iterator[Any]:
    """Return the same items after fetching the first one now: many samplers draw the order of a pass at that moment."""
    for first in items:
        return itertools.chain([first], items)
    return iter(())
