"""Masks secrets in a YAML text and leaves everything else, including comments, as it was written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from determined.config.dump import dump_yaml
from determined.config.reading.load import parse_yaml
from determined.config.secrets.masking import MASK, SECRET_WORD, inner_name, mask_secrets
from determined.errors import InvalidConfigurationException

Span = tuple[int, int]

_SECRET_FIELD = re.compile(rf"(?:{SECRET_WORD}|key)[\"']?\s*[:=]\s*(?=\S)", re.IGNORECASE)


def mask_yaml(text: str) -> str:
    """Return a configuration text with its secrets masked. The text must have passed the checks of `load.py`.

    If masking would change other values, the masked data are written as new YAML instead.
    """
    data = parse_yaml("the configuration", text)
    masked_data = mask_secrets(data)
    masked = "".join(map(_with_comment_masked, _with_spans_masked(text).splitlines(keepends=True)))
    try:
        # Replaced spans could break the YAML or change another value; the comparison notices both.
        unharmed = mask_secrets(parse_yaml("the configuration", masked)) == masked_data
    except InvalidConfigurationException:
        unharmed = False
    return masked if unharmed else dump_yaml(masked_data)


def _with_comment_masked(line: str) -> str:
    """Mask the value of a secret field in a comment: one that was commented out may still contain a key."""
    comment = line.find("#")
    field = _SECRET_FIELD.search(line, comment) if comment >= 0 else None
    return line if field is None else line[: field.end()] + MASK + line[len(line.rstrip()) :]


def _with_spans_masked(text: str) -> str:
    """Return the text with the spans of secret values replaced."""
    from ruamel.yaml import YAML

    spans = dict(_secret_spans(YAML(typ="safe", pure=True).compose(text), ""))
    # From the end of the text, so that earlier positions stay valid.
    for (start, end), shown in sorted(spans.items(), reverse=True):
        # The span of a block scalar includes the final line break, which must be kept.
        tail = text[start:end][len(text[start:end].rstrip()) :]
        text = f"{text[:start]}{json.dumps(shown)}{tail}{text[end:]}"
    return text


def _secret_spans(node: Any, name: str) -> Iterator[tuple[Span, str]]:
    """Yield the span of each secret and the text that replaces it."""
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
    """Return whether a scalar is text. Numbers are not masked, as in `mask_secrets`."""
    return str(node.tag).endswith((":str", ":timestamp"))


def _span(node: Any) -> Span:
    return node.start_mark.index, node.end_mark.index
