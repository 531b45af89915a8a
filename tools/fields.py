"""Build the reference page of configuration fields; the accepted values come from the error messages of validators."""

from __future__ import annotations

import inspect
import json
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from determined.config.blocks.block import TAG, Block, plain_value
from determined.config.blocks.experiment import ExperimentConfig
from determined.config.reading.catalog import Place, blocks

_LONGEST_DEFAULT = 40

# Pydantic's error types for which the library has no message.
_WORDS = {
    "model_type": "a block",
    "dict_type": "a map",
    "tuple_type": "a list",
    "union_tag_not_found": "one of the blocks below",
}


def fields_page() -> str:
    lines = [
        "# The fields of a configuration",
        "",
        "Every field of the configuration, the values it accepts and its default. How the fields are used,",
        "and the fields of older releases: [the experiment configuration](../configuration.md).",
        "",
    ]
    for place, block in blocks(ExperimentConfig):
        lines += [f"## {_title(place)}", "", inspect.getdoc(block) or "", ""] if place else []
        lines += ["| field | takes | default |", "|---|---|---|"]
        lines += [_row(name, field) for name, field in block.model_fields.items()]
        lines += [""]
    return "\n".join(lines)


def _title(place: Place) -> str:
    """Return the path of a block, and which alternative it is."""
    path = ".".join(part for part in place if not part.startswith(TAG))
    chosen = [part.removeprefix(TAG) for part in place if part.startswith(TAG)]
    return f"`{path}`: {chosen[-1]}" if place[-1].startswith(TAG) else f"`{path}`"


def _row(name: str, field: FieldInfo) -> str:
    default = "required" if field.is_required() else _default(_value(field))
    return f"| `{name}` | {_takes(field)} | {default} |".replace("\n", " ")


def _value(field: FieldInfo) -> Any:
    """Return the default of a field. `FieldInfo.get_default` of pydantic 2.10 wants the other fields for a factory."""
    factory: Any = field.default_factory
    return field.default if factory is None else factory()


def _takes(field: FieldInfo) -> str:
    """Return the message of a field for a value that it does not accept."""
    annotation: Any = field.annotation
    for extra in field.metadata:
        annotation = Annotated[annotation, extra]
    try:
        TypeAdapter(annotation).validate_python(object())
    except ValidationError as error:
        return " or ".join(dict.fromkeys(_words(one) for one in error.errors()))
    raise AssertionError(f"a field that takes anything: {field}")


def _words(error: Any) -> str:
    known = _WORDS.get(error["type"])
    text = known or str(error.get("ctx", {}).get("expected") or error["msg"])
    return text.replace("|", "\\|")


def _default(value: Any) -> str:
    if value is None or isinstance(value, Block):
        return ""
    text = json.dumps(plain_value(value))
    return f"`{text}`" if len(text) <= _LONGEST_DEFAULT else "built in"
