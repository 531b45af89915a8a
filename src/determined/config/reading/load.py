"""Parses untrusted YAML: no tags, no duplicate keys, and limited size, depth and aliases."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from determined.errors import InvalidExperimentConfig, Mistake

_LARGEST_TEXT = 1024 * 1024  # configurations have a few kilobytes; a larger file is a mistake or an attack
_DEEPEST = 64  # deeper nesting would come near Python's recursion limit in the loader
_MOST_ALIASES = 100  # configurations have a few at most
# Aliases let a short text expand to a huge structure, so the expanded values are limited too.
_MOST_NODES = 200_000


def load_yaml(source: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the map in a YAML text, or in a file if `source` is a path object or a single line with a file name."""
    return parse_yaml(*read_source(source))


def parse_yaml(name: str, text: str) -> dict[str, Any]:
    """Return the map in a YAML text. `name` is its name in error messages."""
    data = parse_value(name, text)
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise _bad(name, None, f"expected a map at the top, got a {type(data).__name__}")
    return data


def parse_value(name: str, text: str) -> Any:
    """Return the value of a YAML text, of any type."""
    if len(text.encode(errors="replace")) > _LARGEST_TEXT:
        raise _too_large(name)
    # Before the data are built: an attack by aliases or nesting would exhaust memory or stack in the loader.
    _check_events(name, text)
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    # "safe" constructs only plain data.
    loader = YAML(typ="safe", pure=True)
    loader.allow_duplicate_keys = False
    loader.Constructor = _plain_constructor()
    try:
        data = loader.load(text)
    # ValueError: for example an integer of more digits than Python converts.
    except (YAMLError, ValueError) as error:
        raise _bad(name, _line_of(error), _words_of(error)) from None
    _count_nodes(name, data)
    return data


def read_source(source: str | os.PathLike[str]) -> tuple[str, str]:
    """Return (name for messages, text) of a configuration that is given as a path or as YAML text."""
    # A text with a line break is never a file name.
    is_path = not isinstance(source, str) or ("\n" not in source and source.endswith((".yaml", ".yml", ".json")))
    if not is_path:
        return "configuration", str(source)
    path = Path(source)
    with open(path, "rb") as file:
        # One byte more than allowed shows that the file is larger, without reading all of it.
        content = file.read(_LARGEST_TEXT + 1)
    if len(content) > _LARGEST_TEXT:
        raise _too_large(str(path))
    try:
        return str(path), content.decode()
    except UnicodeDecodeError as error:
        raise _bad(str(path), None, f"not UTF-8 text: {error}") from None


@cache
def _plain_constructor() -> Any:
    """Return a YAML constructor that keeps dates as text, because JSON has no dates."""
    from ruamel.yaml.constructor import SafeConstructor

    class Plain(SafeConstructor):
        pass

    Plain.add_constructor("tag:yaml.org,2002:timestamp", Plain.construct_yaml_str)
    return Plain


def _bad(name: str, line: int | None, problem: str) -> InvalidExperimentConfig:
    return InvalidExperimentConfig([Mistake("", line, problem, file=name)])


def _too_large(name: str) -> InvalidExperimentConfig:
    return _bad(name, None, f"larger than {_LARGEST_TEXT} bytes")


def _check_events(name: str, text: str) -> None:
    """Reject tags, deep nesting and many aliases from the stream of parser events, before any data are built."""
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
            # "!" alone only says that a value is a text.
            elif getattr(event, "tag", None) not in (None, "!"):
                problem = f"the tag {event.tag!r} is not allowed"
            if isinstance(event, CollectionStartEvent):
                depth += 1
                if depth > _DEEPEST:
                    problem = f"nested deeper than {_DEEPEST} levels"
            elif isinstance(event, CollectionEndEvent):
                depth -= 1
            if problem:
                raise _bad(name, event.start_mark.line + 1, problem)
    except (YAMLError, ValueError) as error:
        raise _bad(name, _line_of(error), _words_of(error)) from None


def _count_nodes(name: str, data: Any) -> None:
    """Raise if the data expand to too many values; this also ends the walk through an alias to its own parent."""
    count = 0
    # A stack instead of recursion, because the data may refer to themselves.
    stack = [data]
    while stack:
        node = stack.pop()
        count += 1
        if count > _MOST_NODES:
            raise _bad(name, None, f"stands for more than {_MOST_NODES} values")
        if isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def _line_of(error: Exception) -> int | None:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return mark.line + 1 if mark is not None else None


def _words_of(error: Exception) -> str:
    return str(getattr(error, "problem", None) or error).partition("\n")[0]
