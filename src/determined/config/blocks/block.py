"""The base class of all blocks of an experiment configuration, and their conversion to plain data."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Union

from pydantic import BaseModel, ConfigDict, Discriminator, Tag

from determined.config.length import Length

# The prefix of the tags that distinguish the alternatives of a field. Pydantic includes tags in the paths of errors. No
# name in a configuration may contain this character, so tags can be recognized and removed from the paths.
TAG = "\0"

# Blocks with several alternatives -> the field that selects the alternative.
KIND_FIELD = {"searcher": "name", "checkpoint_storage": "type"}


class Block(BaseModel):
    """A block of a configuration. It is immutable and rejects unknown fields."""

    # Frozen: several parts of a runner share the model. Unknown fields are rejected, because a misspelled one would
    # otherwise be ignored.
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    def plain(self) -> dict[str, Any]:
        """Return the block as it would be written in a file: JSON values without fields that are None."""
        # Not `model_dump`, which would dump tagged alternatives and lengths in another form.
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: plain_value(value) for name, value in values.items() if value is not None}


def plain_value(value: Any) -> Any:
    """Return a field's value as JSON data; free-form data are copied."""
    if isinstance(value, (Block, Length)):
        return value.plain()
    if isinstance(value, tuple):
        return [plain_value(item) for item in value]
    # Copied, so that changes of the plain data do not change the model.
    return copy.deepcopy(value)


def tag_by(field: str) -> Callable[[Any], str | None]:
    """Return a function that selects the alternative of a field by the text in one of its subfields."""

    def tag(value: Any) -> str | None:
        kind = value.get(field) if isinstance(value, dict) else getattr(value, field, None)
        return TAG + kind if isinstance(kind, str) else None

    return tag


def one_of(models: Mapping[str, type[Block]], tag: Callable[[Any], str | None]) -> Any:
    """Return the type annotation of a field that is one of several blocks, selected by a tag."""
    alternatives = tuple(Annotated[model, Tag(TAG + name)] for name, model in models.items())
    return Annotated[Union[alternatives], Discriminator(tag)]  # noqa: UP007  (a tuple cannot be joined by |)
