"""Something that is not as it must be in a store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Where (a table, or the file itself), and what."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"
