"""page/generated/types.ts agrees with the routes of the server."""

from __future__ import annotations

import pytest
from tools import page_types


def test_the_types_of_the_page_are_those_of_the_server() -> None:
    assert page_types.PAGE.read_text() == page_types.page(), "python -m tools.page_types"


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}}, "(number | null)[]"),
        ({"type": "object", "additionalProperties": {"$ref": "#/components/schemas/A"}}, "Record<string, A>"),
        ({"enum": ["a", 'b"']}, '"a" | "b\\""'),
        ({}, "unknown"),
    ],
)
def test_schemas_become_types(schema: dict[str, object], written: str) -> None:
    assert page_types._type(schema) == written
