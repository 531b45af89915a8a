"""From what training code holds to what JSON can hold, without importing torch or numpy."""

from __future__ import annotations

import datetime
import enum
import sys
import uuid
from typing import Any

_DEEPEST = 64


def to_jsonable(value: Any, name: str, depth: int = 0) -> Any:
    """Plain numbers, strings, lists and maps; floats keep their value, NaN and infinities included.

    `name` is what an error calls the value.
    """
    if depth > _DEEPEST:
        raise ValueError(f"{name} is nested deeper than {_DEEPEST} levels")
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, enum.Enum):
        return value.name
    if hasattr(value, "tolist"):  # arrays, tensors, and their scalars
        inner = value.tolist()
        # A number with more digits than a float (numpy.longdouble) gives back itself.
        return to_jsonable(float(value) if type(inner) is type(value) else inner, name, depth + 1)
    if isinstance(value, int):
        _refuse_endless(value, name)
        return value
    if isinstance(value, float):
        return value
    if isinstance(value, dict):
        return {_key(key, name): to_jsonable(inner, f"{name}[{key!r}]", depth + 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_jsonable(inner, f"{name}[{i}]", depth + 1) for i, inner in enumerate(value)]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode(errors="replace")
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if hasattr(value, "__json__"):
        return to_jsonable(value.__json__(), name, depth + 1)
    raise TypeError(f"{name} is a {type(value).__name__}, which cannot be kept: {_short(value)}")


def _key(key: Any, name: str) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    raise TypeError(f"{name} has the key {_short(key)} of type {type(key).__name__}: expected a str")


def _refuse_endless(value: int, name: str) -> None:
    """Raise for an integer with so many digits that Python does not turn it into text, which JSON is."""
    most = sys.get_int_max_str_digits()
    if most and value.bit_length() > 3.3 * most and abs(value) >= 10**most:
        raise ValueError(f"{name} is an integer of more than {most} digits, which cannot be kept")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."
