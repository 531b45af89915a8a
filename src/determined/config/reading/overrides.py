"""Applies `--config key=value` options of the command line to a configuration."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, get_args

from determined.config.blocks.experiment import ExperimentConfig
from determined.config.length import LengthUnit, read_length
from determined.config.reading.aliases import replaceable_blocks, without_replaced
from determined.config.reading.catalog import catalog, list_fields
from determined.config.reading.load import parse_value
from determined.errors import InvalidExperimentConfig, Mistake


def apply_overrides(config: dict[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the configuration with each `a.b=value` applied in order, and the dotted paths that were set.

    A field that is set replaces other names of the same quantity: `max_length` replaces `max_steps`, so that the two do
    not contradict each other.
    """
    # The caller's configuration stays as it was.
    config = copy.deepcopy(config)
    given: dict[str, Any] = {}  # the overrides alone
    mistakes: list[Mistake] = []
    paths: list[str] = []
    for override in overrides:
        try:
            paths.append(_apply(config, override))
            # Applied to an empty map as well, to know which fields were given on the command line.
            _apply(given, override)
        except InvalidExperimentConfig as error:
            mistakes.extend(error.mistakes)
    if mistakes:
        raise InvalidExperimentConfig(mistakes)
    for path in replaceable_blocks():
        _drop_replaced(config, path, given)
    return config, paths


def _drop_replaced(config: dict[str, Any], path: tuple[str, ...], given: Any) -> None:
    """Remove the fields of a block that the given ones replace."""
    parent: Any = config
    for name in path[:-1]:
        parent, given = parent.get(name), given.get(name)
        if not isinstance(parent, dict) or not isinstance(given, dict):
            return
    block, given = parent.get(path[-1]), given.get(path[-1])
    if isinstance(block, dict) and isinstance(given, dict):
        parent[path[-1]] = without_replaced(path, block, given)


def _apply(config: dict[str, Any], override: str) -> str:
    """Set the field of one override and return its path."""
    path, equals, text = override.partition("=")
    path = path.strip()
    names = path.split(".")
    if not equals or not all(names):
        raise _bad(path, f"expected name=value, as in searcher.max_trials=16, got {_without_value(override)!r}")
    block = config
    for depth, name in enumerate(names[:-1], start=1):
        inner = block.get(name)
        if inner is None:
            inner = block[name] = {}
        if not isinstance(inner, dict):
            raise _bad(path, f"cannot be set: {'.'.join(names[:depth])} is not a map in this configuration")
        block = inner
    value = _value(path, names, text.strip())
    free = names[0] in ("data", "hyperparameters")  # free-form data, in which {epochs: 2} is not a length
    if not free and names[-1] in get_args(LengthUnit) and read_length(block) is not None:
        # `{batches: 100}` with `epochs=2` would otherwise have two units.
        block.clear()  # a length has one unit, so the new one replaces the old one
    block[names[-1]] = _merged(block.get(names[-1]), value, free=free)
    return path


def _value(path: str, names: list[str], text: str) -> Any:
    """Parse the value of an override.

    Text that begins with a bracket is YAML. For a list field, commas separate the items. Everything else is a single
    value, or the text itself.
    """
    is_list = path in list_fields(ExperimentConfig) or (names[0] == "hyperparameters" and names[-1] == "vals")
    # Only brackets, because a text such as `a: b` on the command line is more likely a text than a map.
    if text[:1] in ("[", "{"):
        value = _bracketed(path, text)
        is_list_of_blocks = is_list and tuple(names) in catalog(ExperimentConfig)
        return [value] if is_list_of_blocks and isinstance(value, dict) else value
    if is_list:
        return [_single(part.strip()) for part in text.split(",")] if text else []
    return _single(text)


def _bracketed(path: str, text: str) -> Any:
    """Parse the value of an override that begins with a bracket, as YAML."""
    try:
        return parse_value(path, text)
    except InvalidExperimentConfig as error:
        raise _bad(path, error.mistakes[0].message) from None


def _single(text: str) -> Any:
    """Return the single YAML value of a text, or the text if it is none."""
    try:
        value = parse_value("", text)
    except InvalidExperimentConfig:
        return text  # not YAML: taken literally
    return text if isinstance(value, (dict, list)) else value


def _merged(old: Any, new: Any, *, free: bool) -> Any:
    """Return two values merged: maps recursively, otherwise the new value.

    A length such as `{epochs: 2}` is replaced as a whole, unless the field is `free`: in `data` and `hyperparameters`
    it is an ordinary map.
    """
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    if not free and read_length(old) is not None and read_length(new) is not None:
        return new
    return {**old, **{name: _merged(old.get(name), value, free=free) for name, value in new.items()}}


def _without_value(override: str) -> str:
    """Return a malformed override without its value, which may be a secret."""
    name, equals, _ = override.partition("=")
    return f"{name[:60]}{equals}{'...' if equals else ''}"


def _bad(path: str, message: str) -> InvalidExperimentConfig:
    return InvalidExperimentConfig([Mistake(path, None, message, file="--config")])
