"""A YAML text with its secrets replaced, and everything else, comments too, as it was written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from determined.config.dump import dump_yaml
from determined.config.load import parse_yaml
from determined.config.masking import MASK, SECRET_WORD, inner_name, mask_secrets
from determined.errors import InvalidConfigurationException

Span = tuple[int, int]

_SECRET_FIELD = re.compile(rf"(?:{SECRET_WORD}|key)[\"']?\s*[:=]\s*(?=\S)", re.IGNORECASE)


def mask_yaml(text: str) -> str:
    """For everything that is shown or kept of a configuration file that load.py has found to be good."""
    data = parse_yaml("the configuration", text)
    masked_data = mask_secrets(data)
    masked = "".join(map(_with_comment_masked, _with_spans_masked(text).splitlines(keepends=True)))
    try:
        unharmed = mask_secrets(parse_yaml("the configuration", masked)) == masked_data
    except InvalidConfigurationException:
        unharmed = False
    return masked if unharmed else dump_yaml(masked_data)


def _with_comment_masked(line: str) -> str:
    """A field that was commented out is no data any more, and may still hold a key."""
    comment = line.find("#")
    field = _SECRET_FIELD.search(line, comment) if comment >= 0 else None
    return line if field is None else line[: field.end()] + MASK + line[len(line.rstrip()) :]


def _with_spans_masked(text: str) -> str:
    from ruamel.yaml import YAML

    spans = dict(_secret_spans(YAML(typ="safe", pure=True).compose(text), ""))
    for (start, end), shown in sorted(spans.items(), reverse=True):
        # A block of lines ends with its line break, which is not part of the secret.
        tail = text[start:end][len(text[start:end].rstrip()) :]
        text = f"{text[:start]}{json.dumps(shown)}{tail}{text[end:]}"
    return text


def _secret_spans(node: Any, name: str) -> Iterator[tuple[Span, str]]:
    """Where a secret stands, and what is shown there."""
    from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

    if isinstance(node, MappingNode):
        for key, value in node.value:
            if name == "secrets":
                yield _span(value), MASK
            else:
                yield from _secret_spans(value, inner_name(name, str(key.value)))
    elif isinstance(node, SequenceNode):
        for item in node.value:
            yield from _secret_spans(item, name)
    elif isinstance(node, ScalarNode) and _is_text(node) and mask_secrets(node.value, name) != node.value:
        yield _span(node), mask_secrets(node.value, name)


def _is_text(node: Any) -> bool:
    """Numbers are not masked, as in the data."""
    return str(node.tag).endswith((":str", ":timestamp"))


def _span(node: Any) -> Span:
    return node.start_mark.index, node.end_mark.index
