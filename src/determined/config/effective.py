"""The hyperparameters that a trial trains with: the assigned ones, unless its program passed others to `init()`."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from determined.config.secrets.masking import mask_secrets

_LARGEST_EXACT = 2**53  # integral floats up to here are exact, so that 1.0 and 1 can be treated as the same value
_LONGEST_SHOWN = 60

# A sentinel, because None is a valid value of a hyperparameter.
_MISSING = object()


class Difference(NamedTuple):
    """A hyperparameter that a program overrode; the values as JSON text with secrets masked."""

    name: str
    assigned: str
    passed: str

    def __str__(self) -> str:
        return f"{self.name} = {self.passed} (assigned: {self.assigned})"


def effective(assigned: dict[str, Any], passed: dict[str, Any] | None) -> dict[str, Any]:
    """Return the assigned hyperparameters, overridden by those that the program passed; nested groups are merged."""
    merged = dict(assigned)
    for name, value in (passed or {}).items():
        known = merged.get(name)
        merged[name] = effective(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


def differences(assigned: dict[str, Any], passed: dict[str, Any] | None) -> list[Difference]:
    """Return the assigned hyperparameters for which the program passed another value."""
    # Stored passed values are masked, so both sides are masked here: a secret would always differ from its mask.
    return _differences(mask_secrets(assigned), mask_secrets(passed or {}), "")


def _differences(assigned: dict[str, Any], passed: dict[str, Any], prefix: str) -> list[Difference]:
    """Return the differences within a group; `prefix` is the dotted name of the group."""
    found = []
    for name, value in assigned.items():
        other = passed.get(name, _MISSING)
        if other is _MISSING:
            continue
        if isinstance(value, dict) and isinstance(other, dict):
            found += _differences(value, other, f"{prefix}{name}.")
        elif value_text(value) != value_text(other):
            found.append(Difference(f"{prefix}{name}", _shown(value), _shown(other)))
    return found


def value_text(value: Any) -> str:
    """Return JSON text that is equal for equal values."""
    # `default=repr`: a program may pass any object.
    return json.dumps(_canonical(value), sort_keys=True, default=repr)


def _canonical(value: Any) -> Any:
    """Return a value with integral floats as integers, so that 1.0 and 1 are equal."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= _LARGEST_EXACT:
        return int(value)
    if isinstance(value, dict):
        return {str(name): _canonical(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(inner) for inner in value]
    return value


def _shown(value: Any) -> str:
    return clipped(json.dumps(value, default=repr))


def clipped(text: str) -> str:
    """Return the text, shortened for a message."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
