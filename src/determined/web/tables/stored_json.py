"""Parse JSON columns of the store."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from determined.web.answers import representable

# It may have more than 64 bits: orjson would return a rounded float. Decimals may have as many digits, so what is
# before the number is part of the pattern; the columns hold maps and lists, in which something is.
_LONG_INTEGER = re.compile(r"[\s:\[,-]\d{19}")


def loads(text: str) -> Any:
    """Parse stored JSON into data that every browser can represent."""
    if _LONG_INTEGER.search(text) is None:
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:  # it contains NaN or infinities, which JSON does not have
            pass
    return representable(json.loads(text))


def loads_exact(text: str) -> Any:
    """Parse stored JSON into Python's values."""
    if _LONG_INTEGER.search(text) is None:
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass
    return json.loads(text)
