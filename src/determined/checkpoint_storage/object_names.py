"""From files to the names of objects, and back: pure functions that let no name lead out of a directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from determined.errors import InvalidCheckpointException
from determined.names import is_file_name

# An object store has no directories, and the library drops a slash at the end of a key: an empty directory is told by
# an empty object in it.
EMPTY_DIRECTORY = ".empty-directory"


def object_name(resource: str) -> str:
    """What a file, or an empty directory (with a slash), is called in an object store."""
    return resource + EMPTY_DIRECTORY if resource.endswith("/") else resource


def to_store(resources: Iterable[str]) -> list[str]:
    """Files and empty directories: the other directories follow from their files."""
    names = list(resources)
    parents = {parent for name in names for parent in _parents(name)}
    return [name for name in names if name not in parents]


def to_resources(objects: Mapping[str, int]) -> dict[str, int]:
    """What a directory with these objects would hold, sorted as a walk through it: path to size, directories first."""
    resources: dict[str, int] = {}
    for name, size in objects.items():
        directory, _, last = name.rpartition("/")
        found = f"{directory}/" if last == EMPTY_DIRECTORY and directory and size == 0 else name
        resources[found] = 0 if found.endswith("/") else size
        resources.update(dict.fromkeys(_parents(found), 0))
    # An empty object with others below it is how some programs write a directory.
    files = {name: size for name, size in resources.items() if not (size == 0 and f"{name}/" in resources)}
    return dict(sorted(files.items(), key=lambda item: item[0].rstrip("/").split("/")))


def check(name: str, where: str) -> None:
    """Refuse a name that could mean another place than below its directory, here or on another system."""
    if not is_file_name(name):
        raise InvalidCheckpointException(f"{where}: {name!r} is no name for a file of a checkpoint")


def _parents(name: str) -> list[str]:
    parts = name.removesuffix("/").split("/")
    return ["/".join(parts[:count]) + "/" for count in range(1, len(parts))]
