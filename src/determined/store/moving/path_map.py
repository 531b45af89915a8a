"""Replaces directories in imported rows by where they are on this machine: `--map OLD=NEW`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from determined.config.storage_directory import directory_of, with_directory
from determined.config.stored import StoredConfig
from determined.errors import StoreError
from determined.names import is_plain_directory, shown

_COLUMNS = {
    "checkpoints": ("storage",),
    "outputs": ("storage",),
    "attempts": ("run_dir",),
    "experiments": ("code_dir", "program"),
}


class PathMap:
    """Pairs of an old and a new directory. If several match a path, the longest one is used."""

    def __init__(self, pairs: Sequence[str] = ()) -> None:
        # Longest first, so that a directory inside of another mapped directory can be mapped to a separate place.
        self._pairs = sorted((_pair(text) for text in pairs), key=lambda pair: len(pair[0]), reverse=True)
        self._used: set[str] = set()

    def path(self, path: str) -> str:
        """Return a path below its new directory, or unchanged if no pair matches."""
        for old, new in self._pairs:
            # With the separator, so that `/data` does not match `/data2`.
            if path == old or path.startswith(old.rstrip("/") + "/"):
                self._used.add(old)
                return os.path.normpath(f"{new}/{path[len(old) :]}")
        return path

    def config(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return a configuration with its checkpoint storage in the new directory."""
        block = StoredConfig(config).checkpoint_storage.plain
        directory = directory_of(block)
        if directory is None or self.path(directory) == directory:
            return config
        return {**config, "checkpoint_storage": with_directory(block, self.path(directory))}

    def change(self, table: str, row: dict[str, Any]) -> None:
        """Replace the paths of a row before it is stored."""
        if not self._pairs:
            return
        for column in _COLUMNS.get(table, ()):
            row[column] = self.path(row[column])
        if table == "experiments":
            row["config"] = json.dumps(self.config(json.loads(row["config"])))

    def refuse_unused(self, place: str) -> None:
        """Raise `StoreError` if a pair matched no path, which suggests a typing error."""
        unused = [f"{old}={new}" for old, new in self._pairs if old not in self._used]
        if unused:
            raise StoreError(
                f"--map {unused[0]}: {place} names no path below {unused[0].split('=')[0]}; nothing was imported"
            )


def _pair(text: str) -> tuple[str, str]:
    """Parse `OLD=NEW`. Raise `StoreError` unless both are absolute paths without `..`."""
    old, separator, new = text.partition("=")
    if not separator or not is_plain_directory(old) or not is_plain_directory(new):
        raise StoreError(f"--map {shown(text)}: expected OLD=NEW, two absolute paths without '..'")
    return os.path.normpath(old), os.path.normpath(new)
