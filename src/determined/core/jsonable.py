"""Convert values of training code (arrays, tensors, enums ...) to JSON-compatible data, without importing torch."""

from __future__ import annotations

import datetime
import enum
import sys
import types
import uuid
from collections.abc import Callable
from typing import Any

# Far below Python's recursion limit, so that a list that contains itself is a clear error.
_DEEPEST = 64
_LONGEST_TEXT = 2000  # a repr may be that of a complete data set
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)

Otherwise = Callable[[Any, str], Any]


def to_jsonable(value: Any, name: str, depth: int = 0, otherwise: Otherwise | None = None) -> Any:
    """Return `value` as plain numbers, strings, lists and dicts. Floats keep their value, including NaN and infinities.

    `name` is the name of the value in error messages. `otherwise` is called with a value that JSON cannot represent and
    its name, and returns the replacement; without it such a value raises TypeError.
    """
    if depth > _DEEPEST:
        raise ValueError(f"{name} is nested deeper than {_DEEPEST} levels")
    if value is None or isinstance(value, (bool, str)):
        return value
    if otherwise is not None and isinstance(value, (type, *_FUNCTIONS)):
        return otherwise(value, name)  # first, because the class of arrays has a `tolist` method, too
    # Before numbers, because members of IntEnum are integers too.
    if isinstance(value, enum.Enum):
        return value.name
    if hasattr(value, "tolist"):  # arrays, tensors, and their scalars
        inner = value.tolist()
        # numpy.longdouble, which has more digits than a float, returns itself from tolist().
        return to_jsonable(float(value) if type(inner) is type(value) else inner, name, depth + 1, otherwise)
    if isinstance(value, int):
        _refuse_endless(value, name)
        return value
    if isinstance(value, float):
        return value
    if isinstance(value, dict):
        return {
            _key(key, name): to_jsonable(inner, f"{name}[{key!r}]", depth + 1, otherwise)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [to_jsonable(inner, f"{name}[{i}]", depth + 1, otherwise) for i, inner in enumerate(value)]
    # Bytes are often texts; those that are not must not end the run.
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode(errors="replace")
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if hasattr(value, "__json__"):
        return to_jsonable(value.__json__(), name, depth + 1, otherwise)
    if otherwise is not None:
        return otherwise(value, name)
    raise TypeError(f"{name} is a {type(value).__name__}, which cannot be kept: {_short(value)}")


def as_text(value: Any) -> str:
    """Return a text for a value that JSON cannot represent: the name of a class or function, or else its repr.

    Sets are sorted, because the order of their elements differs between processes.
    """
    if isinstance(value, (set, frozenset)) and value:
        inner = "{" + ", ".join(as_text(element) for element in sorted(value, key=_place_in_set)) + "}"
        return (inner if type(value) is set else f"{type(value).__name__}({inner})")[:_LONGEST_TEXT]
    try:
        qualname = getattr(value, "__qualname__", None)  # C functions such as numpy.mean have special classes
        return f"{value.__module__}.{qualname}" if callable(value) and qualname else repr(value)[:_LONGEST_TEXT]
    except Exception:  # noqa: BLE001  (methods of user classes may raise anything)
        return f"<{type(value).__module__}.{type(value).__qualname__}>"


def _place_in_set(element: Any) -> tuple[int, float, str]:
    """Return the sort key of a set's element: numbers first, by value, then the others by text."""
    if isinstance(element, (int, float)):
        return 0, element, ""
    return 1, 0, as_text(element)


def _key(key: Any, name: str) -> str:
    """Return a key of a dict as a text; raise TypeError unless it is a str or an int."""
    if isinstance(key, str):
        return key
    # bool is an int in Python, and would become the text "True".
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    raise TypeError(f"{name} has the key {_short(key)} of type {type(key).__name__}: expected a str")


def _refuse_endless(value: int, name: str) -> None:
    """Raise ValueError for an integer with more digits than Python converts to text."""
    most = sys.get_int_max_str_digits()
    # A digit has 3.32 bits: the first comparison is cheap and rules out nearly all numbers before the power is
    # computed.
    if most and value.bit_length() > 3.3 * most and abs(value) >= 10**most:
        raise ValueError(f"{name} is an integer of more than {most} digits, which cannot be kept")


def _short(value: Any) -> str:
    """Return the repr of a value, cut if it is long."""
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."
