"""Which classes were found in which places of a state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from determined.pytorch.state_codec.paths import Path


@dataclass(frozen=True)
class Known:
    """A class that was found in a place of a state, and the attributes that the instance had."""

    kind: Any
    attributes: frozenset[str]


class FoundClasses(Mapping[Path, Known]):
    """Classes by place. A value that is in several places is described once, and its other places refer to the first.

    Copying what is below a value to each of its places would double the number of places with every back-reference:
    thirty children that know their parent would be a billion places.
    """

    def __init__(self) -> None:
        self._classes: dict[Path, Known] = {}
        self._first: dict[Path, Path] = {}  # another place of a value: where it was found first

    def add(self, path: Path, known: Known) -> None:
        self._classes[path] = known

    def refer(self, path: Path, first: Path) -> None:
        """The value in this place, with everything below it, is the one that was found at `first`."""
        self._first[path] = first

    def __getitem__(self, path: Path) -> Known:
        place: Path = ()
        for step in path:
            place = (*place, step)
            place = self._first.get(place, place)
        return self._classes[place]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)
