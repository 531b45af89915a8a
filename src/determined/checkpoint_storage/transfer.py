"""Transfer many files in parallel between a directory and a bucket, with few connections and little memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple, TypeVar

from determined.checkpoint_storage.bucket import PART_BYTES, Bucket

T = TypeVar("T")

# Chosen so that both groups keep at most about 100 MB in memory: 12 files of one part, or 2 files with 4 parts each.
_SMALL_FILES_AT_ONCE = 12
_BIG_FILES_AT_ONCE = 2
_PIECES_AT_ONCE = 8


def upload(bucket: Bucket, files: Mapping[str, Path]) -> None:
    """Upload each file under its key: first many small ones in parallel, then a few large ones in parts."""
    big = {key: file for key, file in files.items() if os.stat(file).st_size > PART_BYTES}
    small = {key: file for key, file in files.items() if key not in big}
    # Small files first: they are bound by latency, and large ones by bandwidth.
    for group, at_once in ((small, _SMALL_FILES_AT_ONCE), (big, _BIG_FILES_AT_ONCE)):
        in_parallel(lambda item: bucket.put_file(*item), group.items(), at_once)


def delete(bucket: Bucket, keys: Iterable[str]) -> None:
    """Delete objects in parallel."""
    in_parallel(bucket.delete, keys, _PIECES_AT_ONCE)


class Download(NamedTuple):
    """An object and the file into which it is downloaded."""

    key: str
    size: int
    file: Path


def download(bucket: Bucket, wanted: Iterable[Download]) -> None:
    """Download each object to its file, large ones in ranges if the server supports that.

    The directories must exist.
    """
    downloads = list(wanted)
    for each in downloads:
        with open(each.file, "xb") as file:
            # The full size from the start, so that several threads can write their ranges at once.
            file.truncate(each.size)
    # The largest is asked once; the answer holds for the server.
    biggest = max(downloads, key=lambda each: each.size, default=None)
    in_pieces = biggest is not None and biggest.size > PART_BYTES and bucket.supports_ranges(biggest.key)
    pieces: list[tuple[Download, int | None]] = []
    for each in downloads:
        if in_pieces and each.size > PART_BYTES:
            pieces += [(each, start) for start in range(0, each.size, PART_BYTES)]
        # An empty object needs no request: its file exists already.
        elif each.size:
            pieces.append((each, None))
    in_parallel(lambda piece: _fetch(bucket, *piece), pieces, _PIECES_AT_ONCE)
    for each in downloads:
        if (size := os.stat(each.file).st_size) != each.size:
            raise OSError(errno.EIO, f"{bucket.shown} gave {size} of the {each.size} bytes of {each.key}")


def _fetch(bucket: Bucket, each: Download, start: int | None) -> None:
    """Download an object into its file: all of it, or with `start` one part of at most PART_BYTES that begins there."""
    # "r+b", because other threads write their ranges of the same file.
    with open(each.file, "wb" if start is None else "r+b") as file:
        if start is None:
            bucket.copy_to(each.key, file)
        else:
            bucket.copy_range_to(each.key, file, start, min(PART_BYTES, each.size - start))


def in_parallel(action: Callable[[T], object], items: Iterable[T], workers: int) -> None:
    """Run `action` for all items in threads.

    After a failure no further item is started; the error is raised when the running ones have ended.
    """
    with ThreadPoolExecutor(workers, thread_name_prefix="determined-cloud") as pool:
        running = [pool.submit(action, item) for item in items]
        try:
            for done in as_completed(running):
                done.result()
        except BaseException:
            # Requests that run cannot be interrupted, but those that wait are not started.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
