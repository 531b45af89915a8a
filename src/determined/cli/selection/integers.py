"""Integer arguments of commands, limited to the range that the store supports."""

from __future__ import annotations

import re
from typing import Any

import click
from click.types import IntParamType

LARGEST = 2**63 - 1  # of a 64-bit column
_SEVERAL = re.compile(r"\d+(?:[,-]\d+)+")


class _Id(IntParamType):
    """An id: any 64-bit integer. The store knows whether the object exists."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, str) and _SEVERAL.fullmatch(value.strip()):
            self.fail(f"{value!r} names several, and this command takes one id", param, ctx)
        number: int = super().convert(value, param, ctx)
        if abs(number) > LARGEST:
            self.fail(f"{number} is too large: no id is above {LARGEST}", param, ctx)
        return number


class Count(click.IntRange):
    """A count with a minimum; the maximum is a technical limit that the help does not show."""

    def __init__(self, min: int) -> None:
        super().__init__(min=min)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number: int = super().convert(value, param, ctx)
        if number > LARGEST:
            self.fail(f"{number} is too large: the largest number is {LARGEST}", param, ctx)
        return number


ID = _Id()
