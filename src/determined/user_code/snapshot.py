"""Copy the code of a standalone program when its run starts: text files only, within a few seconds."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from determined.sentences import first_few
from determined.user_code.copy import LEFT_OUT_DIRECTORIES, LEFT_OUT_NAMES, NO_SPACE, left_out, read_ignore_file
from determined.user_code.root import CodeRoot

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

logger = logging.getLogger("determined")

# The start of a run waits for the snapshot, so a directory of data must not delay it for longer.
MAX_SECONDS = 5.0
# Source files are smaller; notebooks with outputs may be larger and are skipped.
MAX_FILE_BYTES = 2**20
MAX_BYTES = 16 * 2**20  # of text files
MAX_REQUESTED_BYTES = 64 * 2**20  # including files that .detignore includes explicitly
MAX_FILES = 10_000

_CHUNK = 2**20

# Files that mark virtual environments and checkpoints: a downloaded checkpoint contains a snapshot itself.
_MARKS_OF_OTHER_THINGS = ("pyvenv.cfg", "conda-meta", "load_data.json")

_NEVER_NAMES = (*LEFT_OUT_NAMES, "credentials", "*.env")
_NEVER_DIRECTORIES = (*LEFT_OUT_DIRECTORIES, "node_modules", "site-packages")

# A file may be replaced by a link or a pipe after it was checked: do not follow the former nor block on the latter.
_READ_WITHOUT_WAITING = os.O_RDONLY | sum(getattr(os, f"O_{name}", 0) for name in ("CLOEXEC", "NOFOLLOW", "NONBLOCK"))


def take_snapshot(root: CodeRoot | None, target: Path, leave_out: list[Path], *, private: bool = True) -> None:
    """Copy the program's code to `target`, a directory that exists afterwards; log once what was skipped.

    Regular files on one file system are copied if they are text of up to 1 MiB, or if `.detignore` includes them by a
    line `!pattern`. Hidden files, keys and links are never copied, nor what `.gitignore` and `.detignore` at the top
    exclude, nor the files and directories in `leave_out`. The copies are independent of the source. They are read-only,
    and with `private` readable by their owner only.
    """
    # A draft, so that an interrupted snapshot is not taken for a complete one.
    draft = target.with_name(f".{target.name}")
    # Left by a process that was killed.
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(0o700 if private else 0o755)
    try:
        if root is None:
            logger.info("no code snapshot is taken: the program is not a file, as in an interactive session")
        else:
            _Snapshot(root, draft, leave_out, private).take()
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


class _OutOfTime(Exception):
    """The snapshot has reached its time limit."""


class _Skipped:
    """The files that a snapshot does not contain, by reason."""

    def __init__(self) -> None:
        self.by_reason: dict[str, list[str]] = {}

    def add(self, reason: str, name: str) -> None:
        """Record a file that was skipped."""
        self.by_reason.setdefault(reason, []).append(name)

    def __str__(self) -> str:
        return "; ".join(f"{reason}: {first_few(names, 5)}" for reason, names in self.by_reason.items())


class _Snapshot:
    """A snapshot while it is taken."""

    def __init__(self, root: CodeRoot, target: Path, leave_out: list[Path], private: bool) -> None:
        self._root = root
        self._file_mode, self._directory_mode = (0o500, 0o700) if private else (0o555, 0o755)
        self._source = root.directory
        self._target = target
        self._forbidden = {os.path.realpath(path) for path in [*leave_out, target]}
        self._is_left_out = left_out(_NEVER_NAMES, _NEVER_DIRECTORIES)
        own = read_ignore_file(root.directory / ".detignore")
        self._ignored = _rules([*read_ignore_file(root.directory / ".gitignore"), *own])
        self._requested = _rules(own)  # their lines `!pattern` include more than text
        # The monotonic clock, because the wall clock may be set.
        self._deadline = time.monotonic() + MAX_SECONDS
        # Mounted directories, for example of data on a network, are not part of the code.
        self._device = os.stat(root.directory).st_dev
        self._taken: set[str] = set()
        self._made: set[str] = set()
        self._text_bytes = self._bytes = 0
        self._reached_limit = False
        self._skipped = _Skipped()

    def take(self) -> None:
        """Copy the files and log what was skipped."""
        try:
            # Files known to be used come first, so that a limit affects other files.
            for path in self._root.in_use:
                if path.is_relative_to(self._source):
                    self._take_if_wanted(path.relative_to(self._source).as_posix())
            if self._root.complete:
                for relative in self._files():
                    self._take(relative)
        except _OutOfTime:
            logger.warning(
                "the code snapshot of %s was ended after %g s: files copied: %d, others are missing. List data in %s, "
                "one pattern a line",
                self._source,
                MAX_SECONDS,
                len(self._taken),
                self._source / ".detignore",
            )
        if self._skipped.by_reason:
            logger.log(
                logging.WARNING if self._reached_limit else logging.INFO,
                "code snapshot of %s (files: %d, kB: %d): skipped %s. To include a file, write a line !PATTERN to %s",
                self._source,
                len(self._taken),
                self._bytes // 1000,
                self._skipped,
                self._source / ".detignore",
            )

    # Names are texts relative to the source, with slashes. Path objects would make a snapshot of a thousand files take
    # more than a second.

    def _files(self) -> Iterator[str]:
        """Yield all files of the directory that the rules allow."""
        # A stack instead of recursion, in sorted order, so that limits cut off the same files in every run.
        waiting = [""]
        while waiting:
            below = waiting.pop()
            directories = []
            for name, is_directory in self._entries(below):
                self._check_time()
                relative = f"{below}{name}"
                if not is_directory:
                    if self._is_wanted(relative):
                        yield relative
                elif self._is_wanted_directory(relative):
                    directories.append(f"{relative}/")
            waiting.extend(reversed(directories))

    def _entries(self, below: str) -> list[tuple[str, bool]]:
        """Return names of a directory's entries, sorted, and whether each is a directory."""
        try:
            with os.scandir(os.path.join(self._source, below)) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in self._in_time(entries)]
        except OSError as error:
            self._skipped.add(error.strerror or str(error), below)
            return []
        return sorted(found)

    def _in_time(self, entries: Iterable[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        """Yield directory entries, checking the snapshot's time limit before each."""
        for entry in entries:
            self._check_time()
            yield entry

    def _is_wanted(self, relative: str) -> bool:
        return not self._is_excluded(relative) and self._path(relative) not in self._forbidden

    def _is_wanted_directory(self, relative: str) -> bool:
        """Return whether to descend into a directory: not ignored, on the same file system, and no environment."""
        path = self._path(relative)
        if self._is_excluded(f"{relative}/") or path in self._forbidden:
            return False
        try:
            if os.lstat(path).st_dev != self._device:
                self._skipped.add("on another file system", f"{relative}/")
                return False
        except OSError as error:
            self._skipped.add(error.strerror or str(error), f"{relative}/")
            return False
        return not any(os.path.lexists(os.path.join(path, mark)) for mark in _MARKS_OF_OTHER_THINGS)

    def _is_excluded(self, relative: str) -> bool:
        """Return whether the rules or the ignore file exclude a path."""
        if self._is_left_out(relative):
            return True
        return self._ignored is not None and self._ignored.match_file(relative)

    def _path(self, relative: str) -> str:
        # The source is a real path and no link below it is followed, so this is a real path, too.
        return os.path.join(self._source, relative)

    def _take_if_wanted(self, relative: str) -> None:
        """Copy a file that is known to be used, unless a rule excludes it."""
        around = [str(parent) for parent in reversed(PurePosixPath(relative).parents)][1:]
        if all(map(self._is_wanted_directory, around)) and self._is_wanted(relative):
            self._take(relative)
        else:
            self._skipped.add("in use, but excluded by .gitignore, .detignore or a built-in rule", relative)

    def _take(self, relative: str) -> None:
        """Copy one file, or note why it is skipped. Links, devices and pipes are skipped without a note."""
        self._check_time()
        if relative in self._taken:
            return
        try:
            if not self._is_regular(os.lstat(self._path(relative))):
                return
            descriptor = os.open(self._path(relative), _READ_WITHOUT_WAITING)
        except FileNotFoundError:
            return  # deleted in the meantime
        except OSError as error:
            self._skipped.add(error.strerror or str(error), relative)
            return
        try:
            # Checked again on the open file, which may have been replaced since `lstat`.
            status = os.fstat(descriptor)
            if self._is_regular(status):
                self._copy(descriptor, status, relative)
        finally:
            os.close(descriptor)

    def _is_regular(self, status: os.stat_result) -> bool:
        return stat.S_ISREG(status.st_mode) and status.st_dev == self._device

    def _copy(self, descriptor: int, status: os.stat_result, relative: str) -> None:
        """Copy an open file if it is within the limits."""
        # `include` is False for a line `!pattern`, and None if no line matches.
        requested = self._requested is not None and self._requested.check_file(relative).include is False
        # One byte more than allowed shows that the file is larger, without reading all of it.
        content = None if requested else os.read(descriptor, MAX_FILE_BYTES + 1)
        size = status.st_size if content is None else len(content)
        reason = self._reason_to_skip(size, content)
        if reason is not None:
            self._skipped.add(reason, relative)
            return
        try:
            self._make_directories(os.path.dirname(relative))
            written = self._write(descriptor, content, os.path.join(self._target, relative), status.st_mode)
        except OSError as error:
            # A full disk is reported: the checkpoints of the run would fail as well.
            if error.errno in NO_SPACE:
                raise OSError(
                    error.errno, f"the code snapshot of this run was not saved: {error.strerror}", error.filename
                ) from error
            self._skipped.add(error.strerror or str(error), relative)
            return
        self._taken.add(relative)
        self._bytes += written
        self._text_bytes += 0 if requested else written

    def _make_directories(self, relative: str) -> None:
        """Create a directory of the snapshot and those above it, each once."""
        if relative and relative not in self._made:
            self._make_directories(os.path.dirname(relative))
            os.mkdir(os.path.join(self._target, relative), self._directory_mode)
            self._made.add(relative)

    def _reason_to_skip(self, size: int, content: bytes | None) -> str | None:
        """Return why a file is skipped, or None. `content` is None for a file that `.detignore` includes explicitly."""
        if content is not None and size > MAX_FILE_BYTES:
            return "above 1 MiB"
        # Like git, which takes a file with a NUL byte for binary.
        if content is not None and b"\0" in content:
            return "not text"
        used, limit = (self._bytes, MAX_REQUESTED_BYTES) if content is None else (self._text_bytes, MAX_BYTES)
        if used + size > limit or len(self._taken) >= MAX_FILES:
            self._reached_limit = True
            return f"above the limits of {limit // 2**20} MiB and {MAX_FILES} files in all"
        return None

    def _write(self, descriptor: int, content: bytes | None, destination: str, mode: int) -> int:
        """Write the copy of a file and return its size."""
        with open(destination, "wb", buffering=0) as file:
            # Read-only, because checkpoints share the copy by hard links.
            os.fchmod(file.fileno(), mode & self._file_mode | 0o400)
            chunk = os.read(descriptor, _CHUNK) if content is None else content
            try:
                while chunk:
                    # A write without a buffer may be partial.
                    written = file.write(chunk)
                    chunk = chunk[written:] or (os.read(descriptor, _CHUNK) if content is None else b"")
                    self._check_time()
            except _OutOfTime:
                # A file that was copied in part would look like the real one.
                os.unlink(destination)
                raise
            return file.tell()

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise _OutOfTime


def _rules(lines: list[str]) -> GitIgnoreSpec | None:
    """Return the rules that these lines of ignore files make; None if there is no line."""
    if not lines:
        return None
    from pathspec import GitIgnoreSpec  # here: many programs have no ignore file

    return GitIgnoreSpec.from_lines(lines)
