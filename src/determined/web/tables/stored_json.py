"""Decode JSON columns of the store into data that browsers can represent."""

from __future__ import annotations

import json
from typing import Any

import orjson

from determined.curves.exact_json import has_long_integer
from determined.web.answers import representable


def loads(text: str) -> Any:
    """Decode stored JSON into data that every browser can represent."""
    if not has_long_integer(text):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:  # it contains NaN or infinities, which JSON does not have
            pass
    return representable(json.loads(text))
