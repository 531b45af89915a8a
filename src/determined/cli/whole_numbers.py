"""Whole numbers on a command line: none that a store has no room for."""

from __future__ import annotations

import re
from typing import Any

import click
from click.types import IntParamType

LARGEST = 2**63 - 1
_SEVERAL = re.compile(r"\d+(?:[,-]\d+)+")


class _Id(IntParamType):
    """Any whole number of 64 bits: whether something has it, the store knows."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, str) and _SEVERAL.fullmatch(value.strip()):
            self.fail(f"{value!r} names several, and this command takes one id", param, ctx)
        number: int = super().convert(value, param, ctx)
        if abs(number) > LARGEST:
            self.fail(f"{number} is too large: no id is above {LARGEST}", param, ctx)
        return number


class Count(click.IntRange):
    """So many, from a smallest number on; the largest one is for machines, and left out of the help."""

    def __init__(self, min: int) -> None:
        super().__init__(min=min)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number: int = super().convert(value, param, ctx)
        if number > LARGEST:
            self.fail(f"{number} is too large: the largest number is {LARGEST}", param, ctx)
        return number


ID = _Id()
