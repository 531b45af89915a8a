"""Parse JSON columns of the store."""

from __future__ import annotations

import json
from typing import Any

import orjson

from determined.web.answers import representable


def loads(text: str) -> Any:
    """Parse stored JSON into data that every browser can represent."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:  # it contains NaN or infinities, which JSON does not have
        return representable(json.loads(text))


def loads_exact(text: str) -> Any:
    """Parse stored JSON into Python's values."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)
