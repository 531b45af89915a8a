"""The storage type `shared_fs`: a directory that all machines of a cluster mount."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from determined.checkpoint_storage.settings import StorageSettings
from determined.checkpoint_storage.types.directory import checked_path
from determined.config.validators import AbsolutePath, FilledText, Text
from determined.errors import Mistake

if TYPE_CHECKING:
    from determined.checkpoint_storage.base import CheckpointStorage


class SharedFsSettings(StorageSettings):
    """A directory that all machines share. Paths of old releases are accepted and ignored."""

    not_as_argument: ClassVar[str] = (
        "speaks about a cluster's mounts: give the directory as a string, or as "
        "{'type': 'directory', 'container_path': ...}"
    )

    host_path: AbsolutePath
    # The fields below belong to containers and to old releases; files that set them stay valid.
    storage_path: FilledText | None = None
    propagation: Text = "rprivate"
    container_path: Text | None = None
    checkpoint_path: Text | None = None
    tensorboard_path: Text | None = None

    @classmethod
    def problems(cls, block: Mapping[str, Any]) -> Iterator[Mistake]:
        """Require `storage_path` to be below `host_path`."""
        from determined.config.reading.error_messages import got

        host, inner = block.get("host_path"), block.get("storage_path")
        if not isinstance(host, str) or not isinstance(inner, str):
            return
        if not _is_below(os.path.join(host, inner), host):
            message = f"expected a path below host_path {got((), host)}, got {got((), inner)}"
            yield Mistake("checkpoint_storage.storage_path", None, message)

    @classmethod
    def directory(cls, block: Mapping[str, Any]) -> str | None:
        host, inner = block.get("host_path"), block.get("storage_path")
        if not isinstance(host, str):
            return None
        return os.path.normpath(os.path.join(host, inner if isinstance(inner, str) else ""))

    def build(self) -> CheckpointStorage:
        from determined.checkpoint_storage.directory import DirectoryStorage

        host = checked_path(self.host_path, "host_path")
        if not os.path.isabs(host):
            raise ValueError(f"checkpoint_storage.host_path must be an absolute path, got {host!r}")
        if self.storage_path is None:
            return DirectoryStorage(Path(host))
        root = os.path.normpath(os.path.join(host, checked_path(self.storage_path, "storage_path")))
        if not _is_below(root, host):
            raise ValueError(
                f"checkpoint_storage.storage_path must lie below host_path {host!r}, got {self.storage_path!r}"
            )
        return DirectoryStorage(Path(root))


def _is_below(path: str, directory: str) -> bool:
    """Return whether a path is a directory or lies below it, by its text alone."""
    # Not resolved, because the directory may not exist on the machine that checks the configuration.
    return Path(os.path.normpath(path)).is_relative_to(os.path.normpath(directory))
