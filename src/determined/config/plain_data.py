"""Converts untrusted data into plain JSON data, which every database and JSON parser can represent."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from determined.errors import Mistake

Path = tuple[str | int, ...]

# The limits of load.py, for data that were not parsed from a text.
_DEEPEST = 64
_MOST_VALUES = 200_000
_LONGEST_NAME = 100


def dotted(path: Path) -> str:
    """Return a path as text such as `searcher.bracket_rungs.0`; very long names are shortened."""
    return ".".join(name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..." for name in map(str, path))


def copy_plain(data: Any) -> tuple[Any, list[Mistake]]:
    """Return a copy of the data made of dicts with text keys, lists and single values, and the mistakes found."""
    copier = _Copier()
    return copier.copy(data, ()), copier.mistakes


class _Copier:
    """A copy in progress, which counts values and collects mistakes."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []
        self._values = 0

    def copy(self, value: Any, path: Path) -> Any:
        """Return a copy of a value as plain data, and record what cannot be copied."""
        self._values += 1
        if self._values > _MOST_VALUES:
            # Reported once, and the rest of the data is then skipped.
            if self._values == _MOST_VALUES + 1:
                self._refuse(path[:1], f"stands for more than {_MOST_VALUES} values")
            return None
        if len(path) > _DEEPEST:
            return self._refuse(path[:1], f"nested deeper than {_DEEPEST} levels")
        if isinstance(value, dict):
            return dict(self._entries(value, path))
        if isinstance(value, (list, tuple)):
            return [self.copy(item, (*path, index)) for index, item in enumerate(value)]
        return self._single(value, path)

    def _entries(self, value: dict[Any, Any], path: Path) -> Iterator[tuple[str, Any]]:
        """Yield the entries of a map with checked names."""
        seen: set[str] = set()
        for key, inner in value.items():
            # YAML reads unquoted digits as numbers, but JSON has only texts as names.
            name = str(key) if isinstance(key, int) and not isinstance(key, bool) else key
            if not isinstance(name, str) or not _is_writable(name):
                self._refuse(path, f"expected a text as a name, got {key!r}"[:120])
                continue
            if name in seen:
                self._refuse((*path, name), "given twice, as a number and as a text")
                continue
            seen.add(name)
            yield name, self.copy(inner, (*path, name))

    def _single(self, value: Any, path: Path) -> Any:
        """Return a single value as plain data."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str(value) if _is_writable(value) else self._refuse(path, "holds a character that is no text")
        # A plain int: a subclass, such as IntEnum, would be stored as something else.
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return (
                float(value) if math.isfinite(value) else self._refuse(path, f"expected a finite number, got {value}")
            )
        return self._refuse(path, f"expected plain data, got a value of type {type(value).__name__}")

    def _refuse(self, path: Path, message: str) -> None:
        self.mistakes.append(Mistake(dotted(path), None, message))


def _is_writable(text: str) -> bool:
    """Return whether a text has no NUL, which databases reject, and no lone surrogate, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


# Free-form data, in which null is a valid value.
_FREE = {("data",), ("hyperparameters",), ("searcher", "sampler_options"), ("environment", "pod_spec")}
# Fields for which null has a meaning: no limit.
_NEVER = {("hang_timeout",)}


def without_nulls(value: Any, path: Path = ()) -> Any:
    """Return the data without fields that are null, which count as not set. Free-form data are unchanged."""
    if path in _FREE or not isinstance(value, dict):
        return value
    return {
        name: without_nulls(inner, (*path, name))
        for name, inner in value.items()
        if inner is not None or (*path, name) in _NEVER
    }
