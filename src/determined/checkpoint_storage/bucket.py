"""Access to an object store, with errors that name the location and the cause and contain no secrets."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar
from urllib.parse import urlsplit

from determined.errors import StorageAccessError
from determined.optional import require

T = TypeVar("T")

# Above the minimum of S3, which is 5 MiB; `_PARTS_AT_ONCE` of them are in memory for each file.
PART_BYTES = 8 << 20
_BLOCK_BYTES = 1 << 20
_PARTS_AT_ONCE = 4
_MOST_PARTS = 9_000  # S3 accepts at most 10,000 parts
_LARGEST_COPY = 5 << 30  # the largest object that S3 copies in one request

# Bounded repetitions, because the text is what a server sent.
_CODE = re.compile(r"<Code>([^<]{1,100})</Code>")
_EXPLANATION = re.compile(r"<Message>([^<]{1,300})</Message>")
_STATUS = re.compile(r"status code: (\d{3}[A-Za-z -]{0,40})")
_LOCATION = re.compile(r"at location (.{1,1000}?) not found")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)

# Services from which the library requests credentials if it was given none; only cloud machines have them.
_CREDENTIAL_SERVICES = ("/latest/api/token", "metadata.google.internal", "169.254.169.254", "/metadata/identity/")

# Part of the library's description of a failed connection, our description, and the errno.
# In the order of the list: the specific words come first, because the general ones occur in most messages.
_CONNECTION_TROUBLES = [
    ("dns error", "its name is not known", errno.EHOSTUNREACH),
    ("ConnectionRefused", "connection refused", errno.ECONNREFUSED),
    ("invalid peer certificate", "its certificate is not trusted", errno.EPROTO),
    ("TimedOut", "it did not answer in time", errno.ETIMEDOUT),
    ("operation timed out", "it did not answer in time", errno.ETIMEDOUT),
    ("ConnectionReset", "the connection was cut", errno.ECONNRESET),
    ("IncompleteMessage", "the connection was cut", errno.ECONNRESET),
    ("UnexpectedEof", "the connection was cut", errno.ECONNRESET),
    ("kind: Connect", "no connection", errno.ECONNREFUSED),
    ("kind: Body", "the connection was cut", errno.ECONNRESET),
    ("kind: Decode", "the connection was cut", errno.ECONNRESET),
    ("HTTP error", "no answer", errno.EIO),
]


class Entry(NamedTuple):
    """One stored object."""

    key: str
    size: int
    modified: datetime


class Bucket:
    """The objects below one prefix of a bucket."""

    def __init__(self, store: Any, shown: str, secrets: Iterable[str] = ()) -> None:
        self._store = store
        self.shown = shown
        self._secrets = [secret for secret in secrets if secret]
        self._errors = require("obstore.exceptions", extra="cloud", purpose=f"the checkpoint storage {shown}")

    def __repr__(self) -> str:
        return f"Bucket({self.shown!r})"

    def put_file(self, key: str, file: Path) -> None:
        """Upload a file; a large one is streamed in parts, so that only a few parts are in memory."""
        # Rounded up: larger parts for a file that would otherwise have too many.
        part = max(PART_BYTES, -(-os.stat(file).st_size // _MOST_PARTS))
        self._call(lambda: self._store.put(key, file, chunk_size=part, max_concurrency=_PARTS_AT_ONCE))

    def put(self, key: str, content: bytes) -> None:
        """Upload bytes as one object."""
        # Small contents take one request instead of the three of a multipart upload.
        self._call(lambda: self._store.put(key, content, use_multipart=False))

    def get(self, key: str) -> bytes | None:
        """Return the content of an object, or None if it does not exist."""
        return self._call_or_none(lambda: bytes(self._store.get(key).bytes()))

    def copy(self, source: str, target: str) -> bool:
        """Copy an object on the server. Return False, without any effect, if it is too large for that."""
        entry = self.head(source)
        if entry is not None and entry.size > _LARGEST_COPY:
            return False
        self._call(lambda: self._store.copy(source, target))
        return True

    def copy_to(self, key: str, file: BinaryIO) -> None:
        """Download an object into a file."""

        def copy() -> None:
            for block in self._store.get(key).stream(min_chunk_size=_BLOCK_BYTES):
                file.write(block)

        self._call(copy)

    def copy_range_to(self, key: str, file: BinaryIO, start: int, length: int) -> None:
        """Download a range of an object to the same position in a file."""
        content = self._call(lambda: self._store.get_range(key, start=start, length=length))
        file.seek(start)
        file.write(content)

    def supports_ranges(self, key: str) -> bool:
        """Return whether the server supports range requests: some small servers always return the complete object."""
        try:
            # Not through `_call`, because the answer is in the text of the library's error.
            self._store.get_range(key, start=0, length=1)
            return True
        except (self._errors.BaseError, OSError) as error:
            if "non-partial response" in str(error):
                return False
            translated = self._translated_error(error)
        raise translated

    def head(self, key: str) -> Entry | None:
        """Return size and time of an object, or None if it does not exist."""
        found = self._call_or_none(lambda: self._store.head(key))
        return None if found is None else _entry(found)

    def entries(self, prefix: str) -> list[Entry]:
        """Return all objects below `prefix/`."""
        # 1,000 names are what a server returns for one request.
        found = self._call(lambda: self._store.list(prefix, chunk_size=1000).collect())
        return [_entry(entry) for entry in found]

    def delete(self, key: str) -> None:
        """Delete an object; do nothing if it does not exist."""
        self._call_or_none(lambda: self._store.delete(key))

    def _call_or_none(self, action: Callable[[], T]) -> T | None:
        """Run a request; return None if the object does not exist."""
        with contextlib.suppress(FileNotFoundError):
            return self._call(action)
        return None

    def _call(self, action: Callable[[], T]) -> T:
        """Run a request; translate errors of the library."""
        try:
            return action()
        except (self._errors.BaseError, OSError, ValueError) as error:
            translated = self._translated_error(error)
        # Raised outside of the except block, so that the library's error, which may contain a secret, is not attached.
        raise translated

    def _translated_error(self, error: Exception) -> Exception:
        """Return an exception that describes an error of the library to the user."""
        if isinstance(error, OSError) and error.errno is not None:
            return error  # an error of a local file: errors of the library have no errno
        text = str(error)
        place = f"the checkpoint storage {self.shown}"
        said = self._quote(text)
        # By the text, because the library has no class for this error.
        if any(code in text for code in ("NoSuchBucket", "ContainerNotFound")):
            # Not FileNotFoundError, which means that a single object is missing.
            return OSError(errno.ENXIO, f"{place} does not exist: {said}")
        if isinstance(error, FileNotFoundError):
            missing = _LOCATION.search(text)
            return FileNotFoundError(errno.ENOENT, f"{place} has no object {missing.group(1) if missing else ''}")
        if any(service in text for service in _CREDENTIAL_SERVICES):
            return StorageAccessError(
                errno.EACCES, f"{place} needs credentials: neither the configuration nor the environment has any"
            )
        if (status := _STATUS.search(text)) is not None and status.group(1)[:3] in ("401", "403"):
            return StorageAccessError(errno.EACCES, f"{place} refused access: {said}")
        if status is None:
            for words, trouble, number in _CONNECTION_TROUBLES:
                if words in text:
                    return OSError(number, f"{place} cannot be reached: {trouble}")
        return OSError(errno.EIO, f"{place} failed: {said}")

    def _quote(self, text: str) -> str:
        """Return the server's message, without the library's dump of the request and without secrets."""
        code, explanation, status = _CODE.search(text), _EXPLANATION.search(text), _STATUS.search(text)
        parts = [match.group(1).strip() for match in (code, explanation) if match]
        if not parts:
            first_line = text.partition("\n")[0][:300]
            parts = [status.group(1).strip() if status else _URL.sub(_without_secrets, first_line)]
        quoted = ": ".join(parts)
        # The server's message may quote a key.
        for secret in self._secrets:
            quoted = quoted.replace(secret, "***")
        return quoted


def _without_secrets(match: re.Match[str]) -> str:
    """Return a URL without user, password and query."""
    try:
        url = urlsplit(match.group(0))
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
    except ValueError:
        return "***"


def _entry(found: Any) -> Entry:
    return Entry(found["path"], found["size"], found["last_modified"])
