"""An object store whose errors are in our words: which place, what happened, and no secrets."""

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

PART_BYTES = 8 << 20
_BLOCK_BYTES = 1 << 20
_PARTS_AT_ONCE = 4
_MOST_PARTS = 9_000  # S3 takes 10,000
_LARGEST_COPY = 5 << 30  # what S3 copies in one request

_CODE = re.compile(r"<Code>([^<]{1,100})</Code>")
_EXPLANATION = re.compile(r"<Message>([^<]{1,300})</Message>")
_STATUS = re.compile(r"status code: (\d{3}[A-Za-z -]{0,40})")
_LOCATION = re.compile(r"at location (.{1,1000}?) not found")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)

# Where the library asks for credentials when it was given none: services that only machines of a cloud have.
_CREDENTIAL_SERVICES = ("/latest/api/token", "metadata.google.internal", "169.254.169.254", "/metadata/identity/")

# Words in the library's description of a failed connection, what we call it, and the system's number for it.
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
    """The objects below one prefix of one bucket."""

    def __init__(self, store: Any, shown: str, secrets: Iterable[str] = ()) -> None:
        self._store = store
        self.shown = shown
        self._secrets = [secret for secret in secrets if secret]
        self._errors = require("obstore.exceptions", extra="cloud", purpose=f"the checkpoint storage {shown}")

    def __repr__(self) -> str:
        return f"Bucket({self.shown!r})"

    def put_file(self, key: str, file: Path) -> None:
        """Stream a file up, a big one in parts, so that memory holds a few parts only."""
        part = max(PART_BYTES, -(-os.stat(file).st_size // _MOST_PARTS))
        self._call(lambda: self._store.put(key, file, chunk_size=part, max_concurrency=_PARTS_AT_ONCE))

    def put(self, key: str, content: bytes) -> None:
        self._call(lambda: self._store.put(key, content, use_multipart=False))

    def get(self, key: str) -> bytes | None:
        """The whole object, or None when there is none."""
        return self._call_or_none(lambda: bytes(self._store.get(key).bytes()))

    def copy(self, source: str, target: str) -> bool:
        """Let the server copy an object; False if it is too large for that, and nothing has happened."""
        entry = self.head(source)
        if entry is not None and entry.size > _LARGEST_COPY:
            return False
        self._call(lambda: self._store.copy(source, target))
        return True

    def copy_to(self, key: str, file: BinaryIO) -> None:
        """Stream the whole object into a file."""

        def copy() -> None:
            for block in self._store.get(key).stream(min_chunk_size=_BLOCK_BYTES):
                file.write(block)

        self._call(copy)

    def copy_range_to(self, key: str, file: BinaryIO, start: int, length: int) -> None:
        """Copy a part of the object to the same place in a file."""
        content = self._call(lambda: self._store.get_range(key, start=start, length=length))
        file.seek(start)
        file.write(content)

    def gives_ranges(self, key: str) -> bool:
        """Whether parts of an object can be asked for: some small servers always give all of it."""
        try:
            self._store.get_range(key, start=0, length=1)
            return True
        except (self._errors.BaseError, OSError) as error:
            if "non-partial response" in str(error):
                return False
            told = self._in_our_words(error)
        raise told

    def head(self, key: str) -> Entry | None:
        found = self._call_or_none(lambda: self._store.head(key))
        return None if found is None else _entry(found)

    def entries(self, prefix: str) -> list[Entry]:
        """Everything below `prefix/`."""
        found = self._call(lambda: self._store.list(prefix, chunk_size=1000).collect())
        return [_entry(entry) for entry in found]

    def delete(self, key: str) -> None:
        """Remove an object; nothing happens when there is none."""
        self._call_or_none(lambda: self._store.delete(key))

    def _call_or_none(self, action: Callable[[], T]) -> T | None:
        with contextlib.suppress(FileNotFoundError):
            return self._call(action)
        return None

    def _call(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except (self._errors.BaseError, OSError, ValueError) as error:
            told = self._in_our_words(error)
        # Outside of the except block: the library's error, which may hold a secret, is not attached to ours.
        raise told

    def _in_our_words(self, error: Exception) -> Exception:
        if isinstance(error, OSError) and error.errno is not None:
            return error  # of a file on this machine: the library's own have no number
        text = str(error)
        place = f"the checkpoint storage {self.shown}"
        said = self._quote(text)
        if any(code in text for code in ("NoSuchBucket", "ContainerNotFound")):
            # Not FileNotFoundError, which stands for one missing object.
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
        """What the server said, without the library's dump of the request and without secrets."""
        code, explanation, status = _CODE.search(text), _EXPLANATION.search(text), _STATUS.search(text)
        parts = [match.group(1).strip() for match in (code, explanation) if match]
        if not parts:
            first_line = text.partition("\n")[0][:300]
            parts = [status.group(1).strip() if status else _URL.sub(_without_secrets, first_line)]
        quoted = ": ".join(parts)
        for secret in self._secrets:
            quoted = quoted.replace(secret, "***")
        return quoted


def _without_secrets(match: re.Match[str]) -> str:
    try:
        url = urlsplit(match.group(0))
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
    except ValueError:
        return "***"


def _entry(found: Any) -> Entry:
    return Entry(found["path"], found["size"], found["last_modified"])
