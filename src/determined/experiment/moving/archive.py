"""The archive format of exported experiments: a tar file of regular files, with their hashes at the end.

Nothing in an archive is trusted: it is read member by member, only files and directories with plain names are accepted,
and the caller publishes nothing before all hashes were compared.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from determined.errors import StoreError
from determined.names import is_file_name, shown
from determined.store.moving.format import not_an_export

NAME = "determined-experiments"
VERSION = 1

HEADER = "header.json"
ROWS = "rows.jsonl"
HASHES = "hashes.json"

# More than any real export has; a file with more would keep the import busy without end.
MOST_MEMBERS = 500_000
# This bounds the header and the hashes, which are read into memory; rows are read line by line.
_LARGEST_JSON = 256 * 2**20
# Bytes. Bounds the memory for files of any size.
_CHUNK = 2**20


class ArchiveWriter:
    """Adds files to an archive; `finish` writes their hashes."""

    def __init__(self, file: IO[bytes], about: dict[str, Any]) -> None:
        # PAX has no limit on sizes and names. Without compression,
        # so that an import knows beforehand how much space it needs.
        self._tar = tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._hashes: dict[str, str] = {}
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.add_json(HEADER, {"format": NAME, "version": VERSION, "exported": moment, **about})

    def add_file(self, name: str, path: Path) -> str:
        """Add a file and return its SHA-256. Of its mode only the executable bit is kept."""
        with open(path, "rb") as file:
            # Of the open file, not of the path: it may be replaced meanwhile.
            status = os.fstat(file.fileno())
            return self._add(name, file, status.st_size, executable=bool(status.st_mode & 0o100))

    def add_json(self, name: str, value: Any) -> None:
        """Add a JSON file."""
        content = json.dumps(value, indent=1).encode()
        self._add(name, io.BytesIO(content), len(content))

    def add_directory(self, name: str) -> None:
        """Add a directory, so that empty ones exist after the import."""
        self._tar.addfile(self._described(name.rstrip("/"), tarfile.DIRTYPE, 0o700))

    def finish(self) -> None:
        """Write the hashes and complete the archive."""
        self.add_json(HASHES, self._hashes)
        self._tar.close()

    def _add(self, name: str, file: IO[bytes], size: int, *, executable: bool = False) -> str:
        """Add a file and return its SHA-256."""
        member = self._described(name, tarfile.REGTYPE, 0o700 if executable else 0o600)
        member.size = size
        reading = _Hashed(file)
        self._tar.addfile(member, reading)
        self._hashes[name] = reading.digest.hexdigest()
        return self._hashes[name]

    def _described(self, name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
        """Return a tar member with neutral owner and time; raise StoreError if the name is not portable."""
        # Refused when writing, so that no archive exists that cannot be imported.
        if not is_file_name(name):
            raise StoreError(f"the file name {shown(name)} is not valid on all systems: rename the file")
        member = tarfile.TarInfo(name)
        member.type, member.mode = kind, mode
        return member


@dataclass(frozen=True)
class Member:
    """A file or directory of an archive."""

    name: str
    size: int
    is_directory: bool
    is_executable: bool


class ArchiveReader:
    """Reads the members of an archive in order. Anything invalid raises a `StoreError` that names the archive."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hashes: dict[str, str] = {}
        self._content: IO[bytes] | None = None
        self.header: dict[str, Any] = {}

    def members(self) -> Iterator[Member]:
        """Yield all members but the header and the hashes; when this ends, every hash was compared."""
        seen: set[str] = set()
        with open(self._path, "rb") as file, self._opened(file) as tar:
            # The first member identifies the format before anything else is read.
            header = self._next(tar)
            if header is None or header.name != HEADER:
                raise not_an_export(str(self._path))
            self.header = self._json(tar, header)
            self._check_header(self.header)
            while (member := self._next(tar)) is not None:
                if len(seen) >= MOST_MEMBERS:
                    raise self._mistake(f"it has more than {MOST_MEMBERS:,} files")
                # A second file of the same name could replace one that was checked before.
                if member.name in seen or member.name == HEADER:
                    raise self._mistake(f"{shown(member.name)} is in it twice")
                seen.add(member.name)
                if member.name == HASHES:
                    expected = self._json(tar, member)
                    # The hashes cover what comes before them, so nothing may follow.
                    if self._next(tar) is not None:
                        raise self._mistake("something follows the hashes")
                    self._compare(expected)
                    return
                if not member.isdir():
                    self._content = self._stream(tar, member)
                yield Member(member.name, member.size, member.isdir(), bool(member.mode & 0o100))
        # Only the hashes at the end prove that the archive is complete.
        raise self._mistake("it is cut off: the hashes at its end are missing")

    def copy(self, member: Member, target: IO[bytes]) -> None:
        """Write the content of the most recent member to a file."""
        assert self._content is not None
        digest, left = hashlib.sha256(), member.size
        while left:
            try:
                chunk = self._content.read(min(left, _CHUNK))
            except (OSError, tarfile.TarError, ValueError, EOFError) as error:
                raise self._mistake(f"{shown(member.name)} cannot be read: {error}") from error
            if not chunk:
                raise self._mistake(f"it is cut off in {shown(member.name)}")
            digest.update(chunk)
            target.write(chunk)
            left -= len(chunk)
        self._hashes[member.name] = digest.hexdigest()

    def _opened(self, file: IO[bytes]) -> tarfile.TarFile:
        """Open the tar file; raise StoreError if it is not one."""
        try:
            # `r:` reads without decompression: a small compressed file could expand without limit.
            return tarfile.open(fileobj=_Bounded(file), mode="r:")  # type: ignore[call-overload,no-any-return]
        except _DAMAGE as error:
            raise self._mistake(f"it cannot be read as a tar file: {error}") from error

    def _next(self, tar: tarfile.TarFile) -> tarfile.TarInfo | None:
        """Return the next member after checking type, name and size; None at the end."""
        try:
            member = tar.next()
        except _DAMAGE as error:
            raise self._mistake(f"it cannot be read as a tar file: {error}") from error
        if member is None:
            return None
        # Links, devices and sparse files could write outside of
        # the target or allocate space that was never transferred.
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE) or member.issparse():
            raise self._mistake(f"{shown(member.name)} is neither a regular file nor a directory")
        # No member can be larger than the archive itself.
        if not is_file_name(member.name) or not 0 <= member.size <= self._path.stat().st_size:
            raise self._mistake(f"it has a member that cannot be accepted: {shown(member.name)}, {member.size} bytes")
        return member

    def _stream(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
        """Open a member of the archive, which must be a regular file, for reading."""
        content = tar.extractfile(member)
        assert content is not None
        return content

    def _json(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> dict[str, Any]:
        """Return the JSON object in a member."""
        if member.isdir() or member.size > _LARGEST_JSON:
            raise self._mistake(f"{member.name} is too large, or a directory")
        content = io.BytesIO()
        self._content = self._stream(tar, member)
        self.copy(Member(member.name, member.size, is_directory=False, is_executable=False), content)
        return parsed_json(content.getvalue(), f"{self._path}: {member.name}")

    def _check_header(self, header: dict[str, Any]) -> None:
        """Raise StoreError if the archive has another format or a newer version."""
        version = header.get("version")
        if header.get("format") != NAME or type(version) is not int or version < 1:
            raise not_an_export(str(self._path))
        if version > VERSION:
            raise StoreError(
                f"{self._path} was written by a newer version of determined-pytorch (format {version}; this version "
                f"reads {VERSION}): upgrade first"
            )

    def _compare(self, expected: dict[str, Any]) -> None:
        """Raise StoreError if the hash of any file differs from the recorded one."""
        # They cannot contain their own hash.
        del self._hashes[HASHES]
        # In both directions: neither a missing nor an added file is accepted.
        for name in self._hashes.keys() | expected.keys():
            if self._hashes.get(name) != expected.get(name):
                raise self._mistake(f"the content of {shown(name)} does not have the hash that was recorded for it")

    def _mistake(self, what: str) -> StoreError:
        """Return the error for a damaged archive."""
        return StoreError(f"{self._path} is damaged, and nothing was imported: {what}")


def parsed_json(content: bytes, where: str) -> dict[str, Any]:
    """Return the JSON object in `content`; raise StoreError if it is not one."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{where} cannot be read as JSON: {error}") from error
    if not isinstance(value, dict):
        raise StoreError(f"{where} holds no map")
    return value


def is_archive(path: Path) -> bool:
    """Return whether a file is a tar file, such as `det experiment export` writes."""
    try:
        with open(path, "rb") as file:
            return file.read(512)[257:262] == b"ustar"
    except OSError:
        return False


# Exceptions of the tar reader for damaged files. It does not check all numbers in them, so errors of various types
# occur.
_DAMAGE = (
    tarfile.TarError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    EOFError,
)


class _Hashed:
    """A file that is hashed while it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Read bytes and add them to the hash."""
        chunk = self._file.read(size)
        self.digest.update(chunk)
        return chunk


class _Bounded:
    """A file that never returns more bytes than it has: a wrong size in a header must not allocate memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size

    def read(self, size: int = -1) -> bytes:
        """Read bytes up to the end of the member."""
        left = max(0, self._size - self._file.tell())
        return self._file.read(left if size < 0 else min(size, left))

    def seek(self, position: int, whence: int = 0) -> int:
        return self._file.seek(position, whence)

    def tell(self) -> int:
        return self._file.tell()
