"""Types that several answers share.

Answers are typed dictionaries: mypy checks what a route returns, the OpenAPI document is derived from the same types
(`tools/page_types.py` writes those of the page from it), and nothing is validated again when 10,000 rows are sent.

Conventions: times are seconds since the epoch; missing values are null; numbers that JSON does not have are the texts
"NaN", "Infinity" and "-Infinity"; an integer beyond 2**53, which a browser would round, is the text of its digits; the
key of a metric is `group/name`, separated by the first slash.
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
    """Statistics of one metric of a trial, which has `count` values, of which `no_numbers` are not numbers.

    If no value is a number, only `count`, `no_numbers` and `last` are given.
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
