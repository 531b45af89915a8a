"""Paths in rows of another machine, changed to where the same directories are here: `--map OLD=NEW`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from determined.config.storage_block import directory_of, with_directory
from determined.errors import StoreError
from determined.names import is_plain_directory, shown

_COLUMNS = {
    "checkpoints": ("storage",),
    "outputs": ("storage",),
    "attempts": ("run_dir",),
    "experiments": ("code_dir", "program"),
}


class PathMap:
    """Pairs of directories. Of several that fit a path the longest one counts."""

    def __init__(self, pairs: Sequence[str] = ()) -> None:
        self._pairs = sorted((_pair(text) for text in pairs), key=lambda pair: len(pair[0]), reverse=True)
        self._used: set[str] = set()

    def path(self, path: str) -> str:
        """Return the path below the new directory, or as it is if no pair fits."""
        for old, new in self._pairs:
            if path == old or path.startswith(old.rstrip("/") + "/"):
                self._used.add(old)
                return os.path.normpath(f"{new}/{path[len(old) :]}")
        return path

    def config(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return a configuration whose checkpoints are in the new directory."""
        block = config.get("checkpoint_storage")
        directory = directory_of(block) if isinstance(block, dict) else None
        if not isinstance(block, dict) or directory is None or self.path(directory) == directory:
            return config
        return {**config, "checkpoint_storage": with_directory(block, self.path(directory))}

    def change(self, table: str, row: dict[str, Any]) -> None:
        """Change the paths of a row that is about to be stored."""
        if not self._pairs:
            return
        for column in _COLUMNS.get(table, ()):
            row[column] = self.path(row[column])
        if table == "experiments":
            row["config"] = json.dumps(self.config(json.loads(row["config"])))

    def refuse_unused(self, place: str) -> None:
        """Raise if a pair fitted no path: it may be a typing mistake."""
        unused = [f"{old}={new}" for old, new in self._pairs if old not in self._used]
        if unused:
            raise StoreError(
                f"--map {unused[0]}: {place} names no path below {unused[0].split('=')[0]}; nothing was imported"
            )


def _pair(text: str) -> tuple[str, str]:
    old, separator, new = text.partition("=")
    if not separator or not is_plain_directory(old) or not is_plain_directory(new):
        raise StoreError(f"--map {shown(text)}: expected OLD=NEW, two absolute paths without '..'")
    return os.path.normpath(old), os.path.normpath(new)
