"""The storage type `directory`: a directory of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from determined.checkpoint_storage.settings import StorageSettings
from determined.config.validators import AbsolutePath

if TYPE_CHECKING:
    from determined.checkpoint_storage.base import CheckpointStorage


class DirectorySettings(StorageSettings):
    """A directory of this machine."""

    container_path: AbsolutePath

    @classmethod
    def directory(cls, block: Mapping[str, Any]) -> str | None:
        path = block.get("container_path")
        return os.path.normpath(path) if isinstance(path, str) else None

    def build(self) -> CheckpointStorage:
        from determined.checkpoint_storage.directory import DirectoryStorage

        return DirectoryStorage(checked_path(self.container_path, "container_path"))


def checked_path(value: Any, field: str) -> str:
    """Return a path of a block as a text; raise ValueError if it is not one."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value) or "\0" in os.fspath(value):
        raise ValueError(f"checkpoint_storage.{field} must be a path, got {value!r}")
    return os.fspath(value)
