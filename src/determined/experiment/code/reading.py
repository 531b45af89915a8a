"""Read the code of an experiment: list its files, read one, compare two experiments. Links are never followed."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import socket
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Literal, NamedTuple

from determined import paths
from determined.errors import InvalidExperimentException, NotFoundException
from determined.experiment.files import ExperimentFiles, experiment_dir
from determined.names import is_file_name, shown
from determined.sentences import counted
from determined.store.experiment_records import Experiment
from determined.store.store import Store

# Limits of what a reader is shown: more would take long to send, and to display in a browser.
_MOST_FILES = 5000
MOST_TEXT_BYTES = 2**20
_MOST_DIFF_LINES = 5000

_CLOCK_STEP_NS = 2_000_000_000  # of the file system with the coarsest clock
_MOST_HASHES = 50_000
_hashes: dict[tuple[int, ...], str] = {}  # by the stamp of the file


class CodeFile(NamedTuple):
    """A file of an experiment's code. A file that is changed or replaced gets another stamp."""

    path: str
    size: int
    stamp: tuple[int, ...]


class FileDifference(NamedTuple):
    """A file that differs between two experiments. `diff` is in the unified format."""

    path: str
    status: Literal["added", "removed", "changed"]
    diff: str


@dataclass(frozen=True)
class Code:
    """The code of an experiment: the directory of its copy, and a remark about it."""

    root: Path
    note: str | None


def code_of(store: Store, experiment: Experiment) -> Code:
    """Return the copy of an experiment's code; raise InvalidExperimentException if there is none on this machine."""
    root = _newest_snapshot(store, experiment) if experiment.is_standalone else _copy(experiment)
    if root is None or root.is_symlink() or not root.is_dir():
        why = "its program saved none" if experiment.is_standalone else "its files are not on this machine"
        raise InvalidExperimentException(f"experiment {experiment.id} has no copy of its code: {why}")
    place = None if experiment.is_standalone else ExperimentFiles(root.parent).place
    note = (
        None if place is None else f"The trials worked in {place}. This is a copy from when the experiment was created."
    )
    return Code(root, note)


def list_files(code: Code) -> list[CodeFile]:
    """Return the regular files of the code, by path."""
    return sorted(_walk(str(code.root), ""))[:_MOST_FILES]


def cut_note(files: Sequence[CodeFile]) -> str | None:
    """Return a remark if a list of files has not all files of the code."""
    return (
        f"Only the first {counted(len(files), 'file')} are listed and compared." if len(files) == _MOST_FILES else None
    )


def read_file(code: Code, path: str, most: int = MOST_TEXT_BYTES) -> tuple[bytes, int]:
    """Return the content of a file, at most `most` bytes of it, and its size."""
    with _opened(code, path) as file:
        return file.read(most), os.fstat(file.fileno()).st_size


def hash_of(code: Code, path: str) -> str:
    """Return the SHA-256 of a whole file."""
    with _opened(code, path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def known_hash_of(code: Code, file: CodeFile) -> str:
    """Return the SHA-256 of a listed file, which is read only if it has changed since its hash was computed."""
    known = _hashes.get(file.stamp)
    if known is None:
        known = hash_of(code, file.path)
        # Not of a file that changed a moment ago: the clock of a file system might give another change the same time.
        if time.time_ns() - file.stamp[-1] > _CLOCK_STEP_NS:
            if len(_hashes) >= _MOST_HASHES:
                _hashes.clear()
            _hashes[file.stamp] = known
    return known


@contextlib.contextmanager
def _opened(code: Code, path: str) -> Iterator[BufferedReader]:
    """Open a regular file of the code for reading.

    No part of the path may be a link, also if it is replaced meanwhile: every directory is opened by itself.
    """
    if not is_file_name(path) or path.endswith("/"):
        raise NotFoundException(f"There is no file {shown(path)}.")
    *directories, name = path.split("/")
    descriptors = [os.open(code.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)]
    try:
        for directory in directories:
            descriptors.append(_open(directory, os.O_DIRECTORY, descriptors[-1], path))
        descriptors.append(_open(name, os.O_NONBLOCK, descriptors[-1], path))
        if not stat.S_ISREG(os.fstat(descriptors[-1]).st_mode):
            raise NotFoundException(f"{shown(path)} is not a regular file.")
        with open(descriptors.pop(), "rb") as file:
            yield file
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def text_of(code: Code, path: str) -> tuple[str | None, int, str | None]:
    """Return the text of a file, its size, and why there is no text."""
    content, size = read_file(code, path)
    if size > MOST_TEXT_BYTES:
        return None, size, f"The file is too large to be shown: it has {size} bytes."
    if b"\0" in content:
        return None, size, "The file contains no text."
    try:
        return content.decode(), size, None
    except UnicodeDecodeError:
        return content.decode("latin-1"), size, "The file is not in UTF-8; some characters may be wrong."


def compare_code(own: Code, other: Code) -> list[FileDifference]:
    """Return the files of `own` that differ from those of `other`, by their whole content."""
    here = {file.path: file.size for file in list_files(own)}
    there = {file.path: file.size for file in list_files(other)}
    found = []
    for path in sorted(here.keys() | there.keys()):
        if here.get(path) == there.get(path) and hash_of(own, path) == hash_of(other, path):
            continue
        before = _shown(other, path) if path in there else ""
        after = _shown(own, path) if path in here else ""
        status: Literal["added", "removed", "changed"] = (
            "added" if path not in there else "removed" if path not in here else "changed"
        )
        without_lines = "Only line ends or the encoding differ." if status == "changed" else "The file is empty."
        found.append(FileDifference(path, status, _diff(path, before, after) or without_lines))
    return found


def _shown(code: Code, path: str) -> str:
    """Return the text of a file, or a note with its size and hash if it is not shown."""
    text, size, note = text_of(code, path)
    return f"{note} ({size} bytes, SHA-256 {hash_of(code, path)})\n" if text is None else text


def _diff(path: str, before: str, after: str) -> str:
    """Return the difference of two texts in the unified format, shortened if it is long; "" if no line differs."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), path, path, lineterm="")
    chosen = [line for _, line in zip(range(_MOST_DIFF_LINES), lines, strict=False)]
    return "\n".join([*chosen, *(["..."] if len(chosen) == _MOST_DIFF_LINES else [])])


def _open(name: str, flags: int, directory: int, path: str) -> int:
    """Open a file or directory below a directory without following links; raise NotFoundException with the path."""
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=directory)
    except OSError as error:
        raise NotFoundException(f"The file {shown(path)} cannot be read: {error.strerror}.") from error


def _walk(directory: str, prefix: str) -> Iterator[CodeFile]:
    """Yield the regular files below a directory; links and special files are left out."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, f"{prefix}{entry.name}/")
            elif entry.is_file(follow_symlinks=False) and is_file_name(prefix + entry.name):
                status = entry.stat(follow_symlinks=False)
                # The last time is that of any change, also of the other time: programs cannot set it.
                times = status.st_mtime_ns, status.st_ctime_ns
                yield CodeFile(
                    prefix + entry.name, status.st_size, (status.st_dev, status.st_ino, status.st_size, *times)
                )


def _copy(experiment: Experiment) -> Path | None:
    """Return the copy of the model directory on this machine, or None."""
    root = experiment_dir(experiment.key)
    return None if root is None else ExperimentFiles(root).code


def _newest_snapshot(store: Store, experiment: Experiment) -> Path | None:
    """Return the snapshot of the program that the newest attempt of a standalone run has taken on this machine."""
    runs = paths.runs_dir().resolve()
    for trial in reversed(store.experiments.trials(experiment.id)):
        for attempt in reversed(store.attempts(trial.id)):
            # The path is data of a row: only a directory that this library made for a run is read.
            path = Path(attempt.run_dir)
            if attempt.process.host == socket.gethostname() and path.parent.resolve() == runs and not path.is_symlink():
                return path / "code"
    return None
