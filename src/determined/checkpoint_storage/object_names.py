"""Translate between file paths and object names. Pure functions; no name can lead out of a directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from determined.errors import InvalidCheckpointException
from determined.names import is_file_name

# An object store has no directories, and the library drops a trailing slash of a key. So an empty directory is
# represented by an empty object in it.
EMPTY_DIRECTORY = ".empty-directory"


def object_name(resource: str) -> str:
    """Return the object name of a file or of an empty directory (with a trailing slash)."""
    return resource + EMPTY_DIRECTORY if resource.endswith("/") else resource


def to_store(resources: Iterable[str]) -> list[str]:
    """Return the names that become objects: files and empty directories. Their files imply the other directories."""
    names = list(resources)
    parents = {parent for name in names for parent in _parents(name)}
    return [name for name in names if name not in parents]


def to_resources(objects: Mapping[str, int]) -> dict[str, int]:
    """Return the files and directories that these objects represent, as path to size.

    The order is that of a directory walk.
    """
    resources: dict[str, int] = {}
    for name, size in objects.items():
        directory, _, last = name.rpartition("/")
        found = f"{directory}/" if last == EMPTY_DIRECTORY and directory and size == 0 else name
        resources[found] = 0 if found.endswith("/") else size
        resources.update(dict.fromkeys(_parents(found), 0))
    # Some programs write a directory as an empty object with other objects below it.
    files = {name: size for name, size in resources.items() if not (size == 0 and f"{name}/" in resources)}
    return dict(sorted(files.items(), key=lambda item: item[0].rstrip("/").split("/")))


def check(name: str, where: str) -> None:
    """Raise InvalidCheckpointException if a name could lead out of its directory on any operating system."""
    if not is_file_name(name):
        raise InvalidCheckpointException(f"{where}: {name!r} is no name for a file of a checkpoint")


def _parents(name: str) -> list[str]:
    """Return all parent directories of a path, with trailing slashes."""
    parts = name.removesuffix("/").split("/")
    return ["/".join(parts[:count]) + "/" for count in range(1, len(parts))]
