"""Checkpoints and outputs whose rows were imported, but whose files are not on this machine."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class MissingFiles:
    """Numbers of checkpoints and outputs that were not found in the storage that their rows name."""

    storage: str
    checkpoints: int
    outputs: int


@dataclass
class ImportedFiles:
    """Follows the rows of an import, and finds out afterwards which files are missing."""

    _rows: list[tuple[str, str, str]] = field(default_factory=list)  # table, storage, id

    def note(self, table: str, row: dict[str, Any]) -> None:
        """Take a new row as it will be stored."""
        if table == "outputs" or (table == "checkpoints" and row["state"] != "DELETED"):
            self._rows.append((table, row["storage"], row["uuid"]))

    def missing(self) -> list[MissingFiles]:
        """Return what is missing in each directory. Object stores are not asked: that takes time and credentials."""
        counts = Counter(
            (storage, table)
            for table, storage, uuid in self._rows
            if "://" not in storage and not os.path.lexists(Path(storage) / uuid)
        )
        return [
            MissingFiles(storage, counts[storage, "checkpoints"], counts[storage, "outputs"])
            for storage in sorted({storage for storage, _ in counts})
        ]
