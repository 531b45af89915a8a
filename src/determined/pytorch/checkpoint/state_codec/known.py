"""Record which classes were found in which places of a state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from determined.pytorch.checkpoint.state_codec.paths import Path


class Known(NamedTuple):
    """A class found in a place of a state, and the attributes of the instance."""

    kind: Any
    attributes: frozenset[str]


class FoundClasses(Mapping[Path, Known]):
    """Classes by place. A value in several places is described once, and its other places refer to the first.

    Copying everything below a value to each of its places would double the number of places with each back-reference:
    thirty children that refer to their parent would give a billion places.
    """

    def __init__(self) -> None:
        self._classes: dict[Path, Known] = {}
        self._first: dict[Path, Path] = {}  # further places of a value, with the place where it was found first

    def add(self, path: Path, known: Known) -> None:
        """Record the class of the value at `path`."""
        self._classes[path] = known

    def refer(self, path: Path, first: Path) -> None:
        """Record that the value at `path`, with everything below it, is the one found at `first`."""
        self._first[path] = first

    def __getitem__(self, path: Path) -> Known:
        place: Path = ()
        for step in path:
            place = (*place, step)
            # At every step, since any value on the way may be one that was found elsewhere first.
            place = self._first.get(place, place)
        return self._classes[place]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)
