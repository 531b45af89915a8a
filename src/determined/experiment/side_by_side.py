"""Hyperparameters and settings of experiments and trials side by side, for `det experiment compare` and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from determined.config.effective import value_text
from determined.config.flattening import flat
from determined.config.secrets.masking import mask_secrets

_COMPARED_SEPARATELY = ("name", "description", "labels", "hyperparameters")
_ABSENT = object()


class Line(NamedTuple):
    """A name, whether the values differ, and the values of all columns, None where there is none."""

    name: str
    differs: bool
    values: list[Any]


def lines_of(columns: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Return a line for every name that any of the columns has."""
    lines = []
    for name in dict.fromkeys(name for column in columns for name in column):
        values = [column.get(name, _ABSENT) for column in columns]
        lines.append(Line(name, differ(values), [None if value is _ABSENT else value for value in values]))
    return lines


def differ(values: Sequence[Any]) -> bool:
    """Return whether values differ: 1 and 1.0 are equal, 1 and true are not, NaN equals NaN."""
    return len({None if value is _ABSENT else value_text(value) for value in values}) > 1


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration, flat and without secrets and what is compared separately."""
    shown = {name: value for name, value in config.items() if name not in _COMPARED_SEPARATELY}
    return flat(mask_secrets(shown))
