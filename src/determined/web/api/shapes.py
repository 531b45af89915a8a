"""Types that several answers share.

Answers are typed dictionaries: mypy checks what a route returns, the OpenAPI document is derived from the same types
(`tools/page_types.py` writes those of the page from it), and nothing is validated again when 10,000 rows are sent.

Conventions: times are seconds since the epoch; what is missing is null; a number that JSON does not have is the text
"NaN", "Infinity" or "-Infinity", and an integer beyond 2**53, which a browser would round, its digits; the key of a
metric is `group/name`, separated by the first slash.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import WithJsonSchema
from typing_extensions import TypeAliasType, TypedDict

Number = TypeAliasType(
    "Number",
    Annotated[
        float | None,
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "number"},
                    {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]},
                    {"type": "null"},
                ]
            }
        ),
    ],
)
Plain = dict[str, Any]


class Problem(TypedDict):
    """The body of every answer that is an error."""

    error: str
    hint: str | None


class Summary(TypedDict):
    """Statistics of one metric of a trial, of the numbers among its `count` values: `no_numbers` of them are none.

    Without any number there are a count and the last value only.
    """

    count: int
    last: Any
    min: Number
    max: Number
    mean: Number
    nonfinite: int
    no_numbers: int


class ActionState(TypedDict):
    """Whether an action can be requested now, and if not, why."""

    name: str
    enabled: bool
    why_not: str | None
