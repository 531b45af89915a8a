"""The record of a problem found in a store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A problem in a store: `where` is a table, or "file", and `what` describes the problem."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"
