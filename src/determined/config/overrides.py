"""`--config key=value`: single fields of a configuration, given on the command line."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from determined.config.catalog import catalog, list_fields
from determined.config.experiment_model import ExperimentConfig
from determined.config.load import parse_value
from determined.errors import InvalidExperimentConfig, Mistake


def apply_overrides(config: dict[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The configuration with each `a.b=value` set in turn, and the dotted paths that were set."""
    config = copy.deepcopy(config)
    mistakes: list[Mistake] = []
    paths: list[str] = []
    for override in overrides:
        try:
            paths.append(_apply(config, override))
        except InvalidExperimentConfig as error:
            mistakes.extend(error.mistakes)
    if mistakes:
        raise InvalidExperimentConfig(mistakes)
    return config, paths


def _apply(config: dict[str, Any], override: str) -> str:
    path, equals, text = override.partition("=")
    path = path.strip()
    names = path.split(".")
    if not equals or not all(names):
        raise _bad(path, f"--config takes name=value, as in searcher.max_trials=16, got {_without_value(override)!r}")
    block = config
    for depth, name in enumerate(names[:-1], start=1):
        inner = block.get(name)
        if inner is None:
            inner = block[name] = {}
        if not isinstance(inner, dict):
            raise _bad(path, f"--config cannot set it: {'.'.join(names[:depth])} is no map in this configuration")
        block = inner
    value = _value(path, names, text.strip())
    block[names[-1]] = _merged(block.get(names[-1]), value)
    return path


def _value(path: str, names: list[str], text: str) -> Any:
    """YAML after a bracket; a list between commas where the field is one; else a single value, or the text itself."""
    is_list = path in list_fields(ExperimentConfig) or (names[0] == "hyperparameters" and names[-1] == "vals")
    if text[:1] in ("[", "{"):
        value = _bracketed(path, text)
        is_list_of_blocks = is_list and tuple(names) in catalog(ExperimentConfig)
        return [value] if is_list_of_blocks and isinstance(value, dict) else value
    if is_list:
        return [_single(part.strip()) for part in text.split(",")] if text else []
    return _single(text)


def _bracketed(path: str, text: str) -> Any:
    try:
        return parse_value(path, text)
    except InvalidExperimentConfig as error:
        raise _bad(path, f"--config: {error.mistakes[0].message}") from None


def _single(text: str) -> Any:
    try:
        value = parse_value("", text)
    except InvalidExperimentConfig:
        return text  # what is no YAML is meant as it stands
    return text if isinstance(value, (dict, list)) else value


def _merged(old: Any, new: Any) -> Any:
    """Maps are merged name by name; everything else is replaced."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{name: _merged(old.get(name), value) for name, value in new.items()}}


def _without_value(override: str) -> str:
    """What may be shown of a wrong one: its value may be a secret."""
    name, equals, _ = override.partition("=")
    return f"{name[:60]}{equals}{'...' if equals else ''}"


def _bad(path: str, message: str) -> InvalidExperimentConfig:
    return InvalidExperimentConfig([Mistake(path, None, message)])
