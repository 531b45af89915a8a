"""Copy the TensorBoard files of jobs from their nodes to the runner's machine while they grow.

A node compares sizes every few seconds and sends what was appended; a file that was replaced is sent again.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from determined.errors import EngineError

# Where jobs create their run directories, and what these are called in the store: directories of the runner's machine.
RUNS, RECORDED_RUNS = "DET_RUNS_DIR", "DET_RECORDED_RUNS_DIR"
_DESCRIPTION, _TENSORBOARD = "run.json", "tensorboard"
_CHUNK = 1 << 20
# Of one look at the files: the rest follows with the next one, so that a large file does not delay events.
_MOST_CHUNKS = 16


class GrowingFiles:
    """The files below a directory of run directories, and how much of each was sent."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._sent: dict[str, tuple[int, int]] = {}  # by path: inode and number of bytes

    def new_parts(self, *, all_of_them: bool = False) -> list[list[Any]]:
        """Return what was added since the last call, as events: path, offset, bytes as text."""
        events: list[list[Any]] = []
        for path in self._files():
            for event in self._parts(path):
                events.append(event)
                if len(events) >= _MOST_CHUNKS and not all_of_them:
                    return events
        return events

    def _files(self) -> Iterator[Path]:
        """Yield the descriptions and TensorBoard files of all runs; their code stays here."""
        for run in sorted(self._runs.glob("*")):
            yield run / _DESCRIPTION
            for directory, _, names in os.walk(run / _TENSORBOARD):
                yield from (Path(directory) / name for name in sorted(names))

    def _parts(self, path: Path) -> Iterator[list[Any]]:
        """Yield the unsent parts of a file."""
        name = path.relative_to(self._runs).as_posix()
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                status = os.fstat(file.fileno())
                inode, sent = self._sent.get(name, (status.st_ino, 0))
                if inode != status.st_ino or sent > status.st_size:
                    sent = 0  # it was replaced
                file.seek(sent)
                while data := file.read(_CHUNK):
                    yield ["file", name, sent, base64.b64encode(data).decode()]
                    sent += len(data)
                    self._sent[name] = status.st_ino, sent
        except OSError:
            return  # it does not exist yet, was deleted, or is a link


def write_part(runs: Path, name: str, offset: int, data: str) -> None:
    """Write a part of a file that a node has sent; raise EngineError if its name leads anywhere else."""
    parts = PurePosixPath(name).parts
    allowed = (len(parts) == 2 and parts[1] == _DESCRIPTION) or (len(parts) > 2 and parts[1] == _TENSORBOARD)
    if not allowed or name.startswith("/") or any(part in ("..", ".") or "\0" in part for part in parts):
        raise EngineError(f"a node sent a file with the name {name!r}, which is no TensorBoard file of a run")
    directory = runs
    for part in parts[:-1]:
        directory = directory / part
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_TRUNC if offset == 0 else 0)
    with open(os.open(directory / parts[-1], flags, 0o600), "r+b" if offset else "wb") as file:
        file.seek(offset)
        file.write(base64.b64decode(data, validate=True))
