"""Types, limits and parsing of the ids in requests."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.exceptions import HTTPException

# Answers repeat ids as JSON numbers, and a browser rounds larger ones. No database has so large ids.
_LARGEST = 2**53 - 1

Id = Annotated[int, Field(ge=0, le=_LARGEST)]
"""The id of an experiment, a trial, a model or a log line."""

# The length is limited before a number is read: int() refuses thousands of digits, also of zeros.
_RANGE = re.compile("([0-9]{1,19})(?:-([0-9]{1,19}))?")

MOST_COMPARED = 100
MOST_DRAWN = 2000
MOST_FILTERED = 10_000  # an address that names more might be too long for other programs


def _listed(most: int) -> Any:
    """Return the OpenAPI pattern of at most `most` ids; `numbers` checks them, because its message is clearer.

    `numbers` reads ranges, too. The pattern has none: it cannot limit the number of ids in a range.
    """
    return Query(json_schema_extra={"pattern": f"^[0-9]{{1,15}}(,[0-9]{{1,15}}){{0,{most - 1}}}$"})


ComparedIds = Annotated[str, _listed(MOST_COMPARED)]
"""Ids such as `1,2,3` of trials that are shown side by side."""
DrawnIds = Annotated[str, _listed(MOST_DRAWN)]
"""Ids of trials whose curves are drawn."""
FilteredIds = Annotated[str | None, _listed(MOST_FILTERED)]
"""Ids of trials that a list is limited to; None for all trials."""


def numbers(text: str, most: int) -> list[int]:
    """Return the ids in a text such as `1,2,3` or `1-40,44`, each once, in order.

    Raises HTTPException if the text is invalid or names more than `most` ids.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    ranges = [_RANGE.fullmatch(word) for word in words]
    found: dict[int, None] = {}
    for match in ranges or [None]:
        first, last = (0, -1) if match is None else (int(match[1]), int(match[2] or match[1]))
        if not first <= last <= _LARGEST:
            raise HTTPException(422, f"expected ids such as 1,2,3 or 1-40,44, got {text[:100]!r}")
        # One more than allowed is enough for the message below: a range may name billions of ids.
        found.update(dict.fromkeys(range(first, min(last, first + most) + 1)))
        if len(found) > most:
            raise HTTPException(422, f"at most {most} trials can be asked for at once")
    return list(found)
