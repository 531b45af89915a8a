"""The base of every block of an experiment configuration, and how a block becomes plain data again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict

from determined.config.length import Length

# Alternatives of a field are told apart by a tag. Pydantic puts it into the path of an error, where it has no business:
# it begins with a character that no name in a configuration may hold, and is taken out again by that.
TAG = "\0"


class Block(BaseModel):
    """Immutable, and without fields that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    def plain(self) -> dict[str, Any]:
        """As it would stand in a file: JSON values, what is not set left out."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: plain_value(value) for name, value in values.items() if value is not None}


def plain_value(value: Any) -> Any:
    """A field's value as JSON; free data are copied."""
    if isinstance(value, (Block, Length)):
        return value.plain()
    if isinstance(value, tuple):
        return [plain_value(item) for item in value]
    return copy.deepcopy(value)


def tag_by(field: str) -> Callable[[Any], str | None]:
    """Tell alternatives apart by the text in one of their fields."""

    def tag(value: Any) -> str | None:
        kind = value.get(field) if isinstance(value, dict) else getattr(value, field, None)
        return TAG + kind if isinstance(kind, str) else None

    return tag
