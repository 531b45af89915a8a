"""Copy the TensorBoard files of jobs from their nodes to the runner's machine while they grow.

A node compares sizes every few seconds and sends what was appended; a file that was replaced is sent again.
"""

from __future__ import annotations

import base64
import logging
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import psutil

from determined.errors import EngineError

logger = logging.getLogger("determined.engines")

# The directory on a node in which jobs create run directories; the directory that the store has for it instead, on the
# runner's machine.
RUNS, RECORDED_RUNS = "DET_RUNS_DIR", "DET_RECORDED_RUNS_DIR"
_DESCRIPTION, _TENSORBOARD = "run.json", "tensorboard"
_CHUNK = 1 << 20
# The limit of one call, for the memory of the node and because other events wait meanwhile. The rest follows.
_MOST_BYTES = 16 * _CHUNK
_SECONDS_AFTER_END = 30.0  # the other ranks of a run end within this time after its first process


class GrowingFiles:
    """The files below a directory of run directories, and how much of each was sent."""

    def __init__(self, runs: Path, *, seconds_after_end: float = _SECONDS_AFTER_END) -> None:
        self._runs, self._seconds_after_end = runs, seconds_after_end
        self._sent: dict[str, tuple[int, int]] = {}  # by path: inode and number of bytes
        self._ended: dict[str, float] = {}  # by run: when its process was found to have ended
        # Runs whose files do not change any more: looking at them would take longer with each trial of a search.
        self._complete: set[str] = set()
        self._writers: dict[str, frozenset[str]] = {}  # by run: the jobs of which one created it
        self.is_behind = False  # whether the last call left something for the next one

    def new_parts(self, jobs: Iterable[str]) -> list[list[Any]]:
        """Return the data that files have gained since the last call, as events: path, offset, bytes as base64.

        `jobs` are those that run on this node now.
        """
        events: list[list[Any]] = []
        running = frozenset(jobs)
        self.is_behind = False
        left = _MOST_BYTES
        for run in sorted(self._runs.glob("*")):
            if run.name in self._complete:
                continue
            may_forget = self._has_ended(run, running)
            for path in _files(run):
                for size, event in self._parts(path):
                    events.append(event)
                    left -= size
                    may_forget = False  # something was still new
                    if left <= 0:
                        self.is_behind = True
                        return events
            if may_forget:
                self._forget(run)
        return events

    def _has_ended(self, run: Path, running: frozenset[str]) -> bool:
        """Return whether the first process of a run ended some time ago, so that its other ranks have ended too."""
        if (run / _DESCRIPTION).exists():
            if _is_alive(run):
                return False
        # Without a description its first process is on another node, and its id says nothing here. A process that
        # created the directory on this node belongs to a job that was running when it was first seen, or had ended.
        elif self._writers.setdefault(run.name, running) & running:
            return False
        since = self._ended.setdefault(run.name, time.monotonic())
        return time.monotonic() - since >= self._seconds_after_end

    def _forget(self, run: Path) -> None:
        """Mark a run as complete, and forget the sizes of its files."""
        self._complete.add(run.name)
        del self._ended[run.name]
        self._writers.pop(run.name, None)
        self._sent = {name: sent for name, sent in self._sent.items() if not name.startswith(f"{run.name}/")}

    def _parts(self, path: Path) -> Iterator[tuple[int, list[Any]]]:
        """Yield the unsent parts of a file, each with its size."""
        name = path.relative_to(self._runs).as_posix()
        try:
            # O_NONBLOCK: a job may create a named pipe, which would block the node until another process writes to it.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(path, flags), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    return
                inode, sent = self._sent.get(name, (status.st_ino, 0))
                if inode != status.st_ino or sent > status.st_size:
                    sent = 0  # it was replaced
                file.seek(sent)
                while data := file.read(_CHUNK):
                    # Before the caller gets it, because it may stop there.
                    self._sent[name] = status.st_ino, sent + len(data)
                    yield len(data), ["file", name, sent, base64.b64encode(data).decode()]
                    sent += len(data)
        except OSError:
            return  # it does not exist yet, was deleted, or is a link


def _files(run: Path) -> Iterator[Path]:
    """Yield the description and the TensorBoard files of a run, but not its code."""
    yield run / _DESCRIPTION
    for directory, _, names in os.walk(run / _TENSORBOARD):
        yield from (Path(directory) / name for name in sorted(names))


def _is_alive(run: Path) -> bool:
    """Return whether the process that created a run directory is running; its id is part of the name."""
    # A name of another form is never taken for that of an ended process.
    pid = run.name.split("-")[1:2]
    return not pid or not pid[0].isdecimal() or psutil.pid_exists(int(pid[0]))


# Files of which a part could not be written: the rest of them is discarded.
_given_up: set[Path] = set()


def write_part(runs: Path, name: str, offset: int, data: str) -> None:
    """Write a part of a file that a node has sent; raise EngineError if its name leads anywhere else.

    If it cannot be written, as on a full disk, a warning is logged once and the file is given up: an experiment does
    not end because of its TensorBoard files.
    """
    parts = PurePosixPath(name).parts
    allowed = (len(parts) == 2 and parts[1] == _DESCRIPTION) or (len(parts) > 2 and parts[1] == _TENSORBOARD)
    if not allowed or name.startswith("/") or any(part in ("..", ".") or "\0" in part for part in parts):
        raise EngineError(f"a node sent a file with the name {name!r}, which is no TensorBoard file of a run")
    target = runs.joinpath(*parts)
    if target in _given_up:
        return
    try:
        _write(runs, target, offset, base64.b64decode(data, validate=True))
    except OSError as error:
        _given_up.add(target)
        logger.warning("%s is not copied from its node any more: %s", target, error)


def _write(runs: Path, target: Path, offset: int, content: bytes) -> None:
    """Write bytes at an offset of a file below `runs`; no link is followed at its end."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_TRUNC if offset == 0 else 0)
    try:
        descriptor = os.open(target, flags, 0o600)
    # The first part of the run: with each of the thousands that follow, the directories exist.
    except FileNotFoundError:
        runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        for directory in reversed([one for one in target.parents if one.is_relative_to(runs) and one != runs]):
            directory.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(target, flags, 0o600)
    with open(descriptor, "r+b" if offset else "wb") as file:
        file.seek(offset)
        file.write(content)
