"""`NumberedCommands`: brings commands that arrive in several calls into their order, and drops repetitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class NumberedCommands:
    """Commands with consecutive numbers from 1. Calls may overtake each other, and are repeated after a lost answer."""

    def __init__(self) -> None:
        self._last = 0  # the number up to which all commands have arrived
        self._early: dict[int, list[Any]] = {}  # commands that have overtaken an earlier one
        self._ready: list[list[Any]] = []

    def add(self, commands: Iterable[tuple[int, list[Any]]]) -> None:
        """Record the commands of a call, except those that have arrived before."""
        self._early.update((number, command) for number, command in commands if number > self._last)
        while (command := self._early.pop(self._last + 1, None)) is not None:
            self._last += 1
            self._ready.append(command)

    def take(self) -> list[list[Any]]:
        """Return the commands that can be executed now, in order, each once."""
        ready, self._ready = self._ready, []
        return ready
