"""From what training code holds to what JSON can hold, without importing torch or numpy."""

from __future__ import annotations

import datetime
import enum
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
        return to_jsonable(value.tolist(), name, depth + 1)
    if isinstance(value, (int, float)):
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


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."
