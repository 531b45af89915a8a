"""In which line of a YAML text each value stands."""

from __future__ import annotations

from typing import Any

_MOST_PLACES = 200_000


def lines_of(text: str) -> dict[str, int]:
    """Dotted path to line, counted from 1; of a text that load.py has found to be good."""
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
    """The line of a value, or of the nearest block around it when it is missing."""
    while path:
        if path in lines:
            return lines[path]
        path = path.rpartition(".")[0]
    return None
