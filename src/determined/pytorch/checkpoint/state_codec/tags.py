"""Tagged dicts: the representation of values that torch's restricted loader does not support."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

KIND = "determined/kind"  # a dict with this key is a tag; a dict of the program that has it is written as pairs

MISSING_PART = "missing"
PICKLED_PART = "pickled"

DEEPEST = 60  # levels; a level takes up to eight Python calls, and the default recursion limit is a thousand


class Problem(NamedTuple):
    """A value that could not be encoded: its path, its class, and the reason."""

    path: str
    type: str
    why: str

    def __str__(self) -> str:
        return f"{self.path} is a {self.type}: {self.why}" if self.why else f"{self.path} is a {self.type}"


def missing(problem: Problem) -> dict[str, Any]:
    """Return the tag for a value that could not be encoded."""
    return {KIND: MISSING_PART, "path": problem.path, "type": problem.type, "why": problem.why}


def problems_in(tree: Any) -> list[Problem]:
    """Return the values that are missing in an encoded state."""
    return [
        Problem(str(tag.get("path"))[:400], str(tag.get("type"))[:200], str(tag.get("why"))[:400])
        for tag in tags_in(tree)
        if tag[KIND] == MISSING_PART
    ]


def tags_in(tree: Any) -> Iterator[dict[Any, Any]]:
    """Yield every tag in an encoded state, including tags inside other tags."""
    # A list instead of recursion: this also runs on data that the depth limit has not been applied to.
    waiting, seen = [tree], set()
    while waiting:
        value = waiting.pop()
        # By id, because encoded data may contain itself.
        if not isinstance(value, (dict, list, tuple)) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            if KIND in value:
                yield value
            waiting.extend(value.values())
        else:
            waiting.extend(value)


def map_tensors(tree: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return an encoded state with every tensor replaced; objects that were shared are still shared."""
    done: dict[int, Any] = {}

    def mapped(value: Any) -> Any:
        """Return a copy of one value, with a container recorded before its items because it may contain itself."""
        kind = type(value)
        if kind not in _CONTAINERS and not isinstance(value, torch.Tensor):
            return value
        if id(value) in done:
            return done[id(value)]
        if isinstance(value, torch.Tensor):
            done[id(value)] = function(value)
            return done[id(value)]
        if kind is tuple:
            copy: Any = tuple(map(mapped, value))
            # A tuple that contains itself through a list was stored meanwhile; that one must be used.
            return done.setdefault(id(value), copy)
        copy = done[id(value)] = kind()
        if kind is list:
            copy.extend(map(mapped, value))
            return copy
        for key, item in value.items():
            copy[key] = mapped(item)
        if hasattr(value, "_metadata"):
            copy._metadata = value._metadata
        return copy

    return mapped(tree)


_CONTAINERS = (dict, list, tuple, collections.OrderedDict, collections.Counter)
