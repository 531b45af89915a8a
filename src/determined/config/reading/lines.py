"""Finds the line of each value in a YAML text, for error messages."""

from __future__ import annotations

from typing import Any

_MOST_PLACES = 200_000  # the limit of values of a configuration


def lines_of(text: str) -> dict[str, int]:
    """Return the line, counted from 1, of each dotted path. The text must have passed the checks of `load.py`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import MappingNode, SequenceNode

    lines: dict[str, int] = {}
    stack: list[tuple[str, Any]] = [("", YAML(typ="safe", pure=True).compose(text))]
    while stack and len(lines) < _MOST_PLACES:
        path, node = stack.pop()
        if isinstance(node, MappingNode):
            entries = [(str(key.value), key.start_mark.line, value) for key, value in node.value]
        elif isinstance(node, SequenceNode):
            entries = [(str(index), item.start_mark.line, item) for index, item in enumerate(node.value)]
        else:
            continue
        for name, line, inner in entries:
            inner_path = f"{path}.{name}" if path else name
            lines[inner_path] = line + 1
            stack.append((inner_path, inner))
    return lines


def line_of(path: str, lines: dict[str, int]) -> int | None:
    """Return the line of a value, or, if it is missing, of the nearest block around it."""
    while path:
        if path in lines:
            return lines[path]
        path = path.rpartition(".")[0]
    return None
