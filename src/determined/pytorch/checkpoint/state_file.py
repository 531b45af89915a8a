"""`StateFile`: a large file that is hashed while it is written, bypassing the page cache.

Hundreds of megabytes that are not read soon would evict the data set from the page cache, and allocating cache pages
for them takes longer than writing. They are therefore written with O_DIRECT, block by block from one buffer. If the
file system rejects O_DIRECT or a block, the file is written normally.
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

_BUFFER = 8 * 2**20  # a multiple of the block size; few writes, and little memory beside the state itself
_BLOCK = 4096  # O_DIRECT requires lengths that are multiples of the block size
_DIRECT = getattr(os, "O_DIRECT", 0)


class StateFile:
    """A writable file for `torch.save`; `digest` is the SHA-256 of what was written."""

    def __init__(self, path: Path) -> None:
        self._descriptor = _open(path)
        self._buffer = mmap.mmap(-1, _BUFFER)  # page-aligned memory, which O_DIRECT requires
        self._filled = 0
        self._length = 0
        self._sha256 = hashlib.sha256()
        # hashlib and os.write release the GIL, so hashing in a thread overlaps with writing.
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
        """The SHA-256 of what was written, in hexadecimal."""
        return self._sha256.hexdigest()

    def write(self, chunk: Any) -> int:
        """Append bytes to the buffer, and write it out whenever it is full."""
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
        """Do nothing: complete buffers are written at once, the rest at the end."""

    def _finish(self) -> None:
        """Write the rest, padded to a complete block as O_DIRECT requires, truncate the padding, and sync the file."""
        length = self._length + self._filled
        if self._filled:
            self._buffer[self._filled : -(-self._filled // _BLOCK) * _BLOCK] = bytes(-self._filled % _BLOCK)
            self._write_out(-(-self._filled // _BLOCK) * _BLOCK)
        # Truncate before the sync, so that the synced file has its final length.
        os.ftruncate(self._descriptor, length)
        os.fsync(self._descriptor)

    def _write_out(self, size: int) -> None:
        """Write the first `size` bytes of the buffer, and hash those that are content."""
        with memoryview(self._buffer) as buffer, buffer[: self._filled] as content, buffer[:size] as blocks:
            hashing = self._beside.submit(self._sha256.update, content)
            try:
                self._write_blocks(blocks)
            finally:
                hashing.result()  # before the buffer is filled again
        self._length += self._filled
        self._filled = 0

    def _write_blocks(self, blocks: memoryview) -> None:
        """Write blocks completely; if the file system rejects O_DIRECT for one, continue without it."""
        done = 0
        while done < len(blocks):
            try:
                done += os.write(self._descriptor, blocks[done:])
            except OSError as error:
                flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
                # EINVAL is how a file system says that it does not support
                # O_DIRECT for this request; all else is a real error.
                if error.errno != errno.EINVAL or not flags & _DIRECT:
                    raise
                fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags & ~_DIRECT)  # retry the block without O_DIRECT


def _open(path: Path) -> int:
    """Open a new private file, with O_DIRECT if the file system supports it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        return os.open(path, flags | _DIRECT, 0o600)
    except OSError as error:
        # As above: for example tmpfs of older kernels rejects the flag when the file is opened.
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, flags, 0o600)
