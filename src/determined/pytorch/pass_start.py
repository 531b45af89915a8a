"""The random generators when a pass over the data begins: whoever puts them back gets the same order again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch

from determined.pytorch import rng

PassStart: TypeAlias = dict[str, Any]

_CPU = torch.device("cpu")  # loaders and samplers draw there


def pass_start(*owners: Any) -> PassStart:
    """The program's generators, and those that these loaders or samplers have as their `generator`."""
    return {"program": rng.get_state(_CPU), "own": [generator.get_state() for generator in _generators(owners)]}


def put_back(start: PassStart, *owners: Any) -> None:
    rng.set_state(start["program"], _CPU)
    for generator, state in zip(_generators(owners), start["own"], strict=False):
        generator.set_state(state)


def _generators(owners: tuple[Any, ...]) -> list[torch.Generator]:
    found = (getattr(owner, "generator", None) for owner in owners)
    return [generator for generator in found if isinstance(generator, torch.Generator)]


@contextmanager
def generators_kept(device: torch.device = _CPU) -> Iterator[None]:
    """Whatever is drawn in here, the program's generators are afterwards what they were."""
    before = rng.get_state(device)
    try:
        yield
    finally:
        rng.set_state(before, device)


def with_first_item(items: Iterator[Any]) -> Iterator[Any]:
    """The same items, the first of them asked for now: that is when many samplers draw the order of a pass."""
    for first in items:
        return itertools.chain([first], items)
    return iter(())
