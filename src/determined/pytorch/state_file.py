"""A large file that is written once: hashed on the way, and past the system's cache.

Hundreds of megabytes that nobody is about to read would push the data set out of the cache, and finding memory for them
takes longer than writing them. So they go to the disk directly where the file system lets them, block by block out of
one buffer; elsewhere, and whenever it refuses a block, by the usual way.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

_BUFFER = 8 * 2**20
_BLOCK = 4096  # what disks want writes to be multiples of
_DIRECT = getattr(os, "O_DIRECT", 0)


class StateFile:
    """Has what `torch.save` needs of a file; `digest` is the SHA-256 of what was written."""

    def __init__(self, path: Path) -> None:
        self._descriptor = _open(path)
        self._buffer = mmap.mmap(-1, _BUFFER)  # memory that begins where a page does, as such writes must
        self._filled = 0
        self._length = 0
        self._sha256 = hashlib.sha256()
        self._beside = ThreadPoolExecutor(1)

    def __enter__(self) -> StateFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._beside.shutdown()
            os.close(self._descriptor)
            self._buffer.close()

    @property
    def digest(self) -> str:
        return self._sha256.hexdigest()

    def write(self, chunk: Any) -> int:
        with memoryview(chunk).cast("B") as data:
            done = 0
            while done < len(data):
                taken = min(_BUFFER - self._filled, len(data) - done)
                self._buffer[self._filled : self._filled + taken] = data[done : done + taken]
                self._filled += taken
                done += taken
                if self._filled == _BUFFER:
                    self._write_out(_BUFFER)
            return len(data)

    def flush(self) -> None:
        """Nothing is kept back for longer than needed."""

    def _finish(self) -> None:
        """The last block is filled up, and cut off again."""
        length = self._length + self._filled
        if self._filled:
            self._buffer[self._filled : -(-self._filled // _BLOCK) * _BLOCK] = bytes(-self._filled % _BLOCK)
            self._write_out(-(-self._filled // _BLOCK) * _BLOCK)
        os.ftruncate(self._descriptor, length)
        os.fsync(self._descriptor)

    def _write_out(self, size: int) -> None:
        with memoryview(self._buffer) as buffer, buffer[: self._filled] as content, buffer[:size] as blocks:
            hashing = self._beside.submit(self._sha256.update, content)
            try:
                self._write_blocks(blocks)
            finally:
                hashing.result()  # the buffer is needed again
        self._length += self._filled
        self._filled = 0

    def _write_blocks(self, blocks: memoryview) -> None:
        done = 0
        while done < len(blocks):
            try:
                done += os.write(self._descriptor, blocks[done:])
            except OSError as error:
                flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
                if error.errno != errno.EINVAL or not flags & _DIRECT:
                    raise
                fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags & ~_DIRECT)


def _open(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        return os.open(path, flags | _DIRECT, 0o600)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, flags, 0o600)
