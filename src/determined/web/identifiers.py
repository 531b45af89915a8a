"""Types, limits and parsing of the ids in requests."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.exceptions import HTTPException

# Answers repeat ids as JSON numbers, and a browser rounds larger ones. No database has so large ids.
_LARGEST = 2**53 - 1

Id = Annotated[int, Field(ge=0, le=_LARGEST)]
"""The id of an experiment, a trial, a model or a log line."""

MOST_COMPARED = 100
MOST_DRAWN = 2000


def _listed(most: int) -> Any:
    """Return the OpenAPI pattern of at most `most` ids; `numbers` checks them, because its message is clearer."""
    return Query(json_schema_extra={"pattern": f"^[0-9]{{1,15}}(,[0-9]{{1,15}}){{0,{most - 1}}}$"})


ComparedIds = Annotated[str, _listed(MOST_COMPARED)]
"""Ids such as `1,2,3` of trials that are shown side by side."""
DrawnIds = Annotated[str, _listed(MOST_DRAWN)]
"""Ids of trials whose curves are drawn."""


def numbers(text: str, most: int) -> list[int]:
    """Return the ids in a text such as `1,2,3`, each once, in order; raise HTTPException if it is invalid."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    # The length is limited before the number is read: int() refuses thousands of digits, also of zeros.
    if not words or not all(
        len(word) < 20 and word.isascii() and word.isdecimal() and int(word) <= _LARGEST for word in words
    ):
        raise HTTPException(422, f"expected ids such as 1,2,3, got {text[:100]!r}")
    found = list(dict.fromkeys(map(int, words)))
    if len(found) > most:
        raise HTTPException(422, f"at most {most} trials can be asked for at once, got {len(found)}")
    return found
