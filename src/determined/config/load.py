"""Read YAML that may come from a stranger: no tags, no duplicate keys, bounded size, depth and aliases."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from determined.errors import InvalidConfigurationException

_LARGEST_TEXT = 1024 * 1024
_DEEPEST = 64
_MOST_ALIASES = 100
# Aliases let a short text stand for a vast structure, so what it expands to is counted as well.
_MOST_NODES = 200_000


def load_yaml(source: str | os.PathLike[str]) -> dict[str, Any]:
    """The map in a YAML text, or in a file when `source` is a path object or one line that names a file."""
    name, text = _read(source)
    _check_events(name, text)
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    loader = YAML(typ="safe", pure=True)
    loader.allow_duplicate_keys = False
    try:
        data = loader.load(text)
    except (YAMLError, ValueError) as error:
        raise InvalidConfigurationException(message=f"{name}{_line_of(error)}: {_words_of(error)}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise InvalidConfigurationException(message=f"{name}: expected a map at the top, got a {type(data).__name__}")
    _count_nodes(name, data)
    return data


def _read(source: str | os.PathLike[str]) -> tuple[str, str]:
    is_path = not isinstance(source, str) or ("\n" not in source and source.endswith((".yaml", ".yml", ".json")))
    if not is_path:
        text = str(source)
        name = "the configuration"
        if len(text.encode(errors="replace")) > _LARGEST_TEXT:
            raise _too_large(name)
        return name, text
    path = Path(source)
    with open(path, "rb") as file:
        content = file.read(_LARGEST_TEXT + 1)
    if len(content) > _LARGEST_TEXT:
        raise _too_large(str(path))
    try:
        return str(path), content.decode()
    except UnicodeDecodeError as error:
        raise InvalidConfigurationException(message=f"{path}: not UTF-8 text: {error}") from None


def _too_large(name: str) -> InvalidConfigurationException:
    return InvalidConfigurationException(message=f"{name}: larger than {_LARGEST_TEXT} bytes")


def _check_events(name: str, text: str) -> None:
    """Refuse by the stream of events, before anything is built."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

    depth = aliases = 0
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            problem = ""
            if isinstance(event, AliasEvent):
                aliases += 1
                if aliases > _MOST_ALIASES:
                    problem = f"more than {_MOST_ALIASES} aliases"
            elif getattr(event, "tag", None) not in (None, "!"):
                problem = f"the tag {event.tag!r} is not allowed"
            if isinstance(event, CollectionStartEvent):
                depth += 1
                if depth > _DEEPEST:
                    problem = f"nested deeper than {_DEEPEST} levels"
            elif isinstance(event, CollectionEndEvent):
                depth -= 1
            if problem:
                raise InvalidConfigurationException(message=f"{name}, line {event.start_mark.line + 1}: {problem}")
    except (YAMLError, ValueError) as error:
        raise InvalidConfigurationException(message=f"{name}{_line_of(error)}: {_words_of(error)}") from None


def _count_nodes(name: str, data: Any) -> None:
    """Walk what the text stands for; an alias to its own parent ends here as well."""
    count = 0
    stack = [data]
    while stack:
        node = stack.pop()
        count += 1
        if count > _MOST_NODES:
            raise InvalidConfigurationException(message=f"{name}: stands for more than {_MOST_NODES} values")
        if isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def _line_of(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return f", line {mark.line + 1}" if mark is not None else ""


def _words_of(error: Exception) -> str:
    return str(getattr(error, "problem", None) or error).partition("\n")[0]
