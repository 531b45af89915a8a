"""Writes scalars to a TensorBoard event file, a complete report at once and without importing TensorBoard.

An event file is a sequence of records, each `length, crc(length), data, crc(data)`, the data a small protocol-buffer
message. The scalars of one step are encoded one by one, which needs no preparation. Per-batch scalars of one report
differ only in the step and the values, so their records are copied from one template as a matrix of bytes. The checksum
(CRC-32C) is linear: the checksum of a record is that of the template, changed by the contribution of each differing
byte, which depends on its distance from the end.
"""

from __future__ import annotations

import itertools
import math
import os
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_STEP_BYTES = 6  # steps are varints of fixed width, 42 bits, so that all records of a template have the same length
# Limits the checksum tables; see `_bounded`.
_EVENT_BYTES = 2000
_MASK = 0xA282EAD8  # added by the format, because a checksum of data that contains checksums is weak
# A process may open several files in the same second, whose names would be equal.
_numbers = itertools.count()

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Words = np.ndarray[Any, np.dtype[np.uint32]]


class EventFileWriter:
    """Appends scalars to an event file in `directory`, which is created at the first write."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self._file: Any = None

    def add_scalars(self, rows: Iterable[tuple[str, int, float]]) -> None:
        """Write (tag, step, value) rows. Consecutive rows of the same step become one event."""
        for step, group in itertools.groupby(rows, key=lambda row: row[1]):
            values = b"".join(_value(tag, _float(value)) for tag, _, value in group)
            # Fields of the message `Event`: 0x09 wall_time, 0x10 step, 0x1a file_version, 0x2a summary.
            data = _timed() + b"\x10" + _varint(step) + b"\x2a" + _sized(values)
            self._open().write(_record(data))

    def add_series(self, tags: Sequence[str], steps: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
        """Write a matrix of values: one row per step, one column per tag."""
        if len(steps):
            for columns in _bounded(tags):
                self._add_records(tags[columns], steps, values[:, columns])

    def _add_records(self, tags: Sequence[str], steps: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
        """Write one event for each step, copied from a template."""
        event = _event(tuple(tags))
        moment = np.frombuffer(struct.pack("<d", time.time()), dtype=np.uint8)
        records = np.repeat(event.record, len(steps), axis=0)
        records[:, event.time_at] = moment
        stamped = np.concatenate([_varints(steps), _floats(values)], axis=1)
        records[:, event.stamped_at] = stamped

        # The template is zero at the variable bytes, so each byte changes the checksum by its own contribution.
        checksums = np.bitwise_xor.reduce(event.stamp_contributions.take(stamped + event.stamp_rows), axis=1)
        checksums ^= event.checksum ^ np.bitwise_xor.reduce(event.time_contributions.take(moment + event.time_rows))
        records[:, -4:] = _masked(checksums).astype("<u4").view(np.uint8).reshape(-1, 4)
        self._open().write(records.tobytes())

    def flush(self) -> None:
        """Pass buffered records to the system, so that viewers see them."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Write buffered records and close the file; a later write opens a new one."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> Any:
        """Return the open file; it is created first if necessary."""
        if self._file is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            # The suffix avoids the file names of a SummaryWriter, which would overwrite this file.
            number = f"{os.getpid()}.{next(_numbers)}.loop"
            name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{number}"
            self._file = open(self.directory / name, "ab", opener=_private)  # noqa: SIM115 - open until close()
            self._file.write(_record(_timed() + b"\x1a" + _sized(b"brain.Event:2")))
        return self._file


def _private(path: str, flags: int) -> int:
    """Open a file with permissions for its owner only."""
    return os.open(path, flags, 0o600)


def _bounded(tags: Sequence[str]) -> Iterator[slice]:
    """Yield slices of tags, each short enough for one event: the checksum tables grow with the length of an event."""
    begin = size = 0
    for at, tag in enumerate(tags):
        if size + len(tag) > _EVENT_BYTES and at > begin:
            yield slice(begin, at)
            begin, size = at, 0
        size += len(tag) + 10  # about the size of the other fields of a scalar
    if begin < len(tags):
        yield slice(begin, len(tags))


class _Event(NamedTuple):
    """The template of a record: zeros where time, step and values go, and how each such byte changes the checksum."""

    record: Bytes
    checksum: np.uint32
    time_at: slice
    time_rows: np.ndarray[Any, Any]
    time_contributions: Words
    stamped_at: np.ndarray[Any, Any]
    stamp_rows: np.ndarray[Any, Any]
    stamp_contributions: Words


@lru_cache(maxsize=64)
def _event(tags: tuple[str, ...]) -> _Event:
    """Return the template of an event with a time, a step and one value for each tag."""
    head = b"\x09" + bytes(8) + b"\x10" + bytes(_STEP_BYTES) + b"\x2a"
    values = [_value(tag, bytes(4)) for tag in tags]
    head += _varint(sum(len(value) for value in values))
    data = head + b"".join(values)

    # The value is the last field of each scalar, so it ends where the scalar ends.
    value_ends = itertools.accumulate((len(value) for value in values), initial=len(head))
    places = [*range(10, 10 + _STEP_BYTES)]
    for end in list(value_ends)[1:]:
        places += range(end - 4, end)
    stamped_at = np.array(places)
    # The tables are computed once for each power of two, and shared by all templates.
    table = _contributions(len(data))
    last = len(data) - 1
    return _Event(
        record=np.frombuffer(_header(len(data)) + data + bytes(4), dtype=np.uint8)[None, :],
        checksum=np.uint32(_crc(data)),
        # 12 bytes: the header of a record.
        time_at=slice(12 + 1, 12 + 9),
        time_rows=np.arange(8) * 256,
        time_contributions=table[last - np.arange(1, 9)].ravel(),
        stamped_at=stamped_at + 12,
        stamp_rows=np.arange(len(places)) * 256,
        stamp_contributions=table[last - stamped_at].ravel(),
    )


def _record(data: bytes) -> bytes:
    """Return a complete record with this event as its data."""
    return _header(len(data)) + data + _stored_crc(data)


def _timed() -> bytes:
    """Return the first field of an event, the current time."""
    return b"\x09" + struct.pack("<d", time.time())


def _value(tag: str, number: bytes) -> bytes:
    """Return the encoding of one scalar. `number` are the four bytes of its value as float32."""
    # `Summary.value`, with the fields 0x0a tag and 0x15 simple_value.
    return b"\x0a" + _sized(b"\x0a" + _sized(tag.encode(errors="replace")) + b"\x15" + number)


def _float(value: float) -> bytes:
    """Return the bytes of a float32. A value that is too large becomes infinity."""
    try:
        return struct.pack("<f", value)
    # Python refuses values beyond float32, which TensorBoard stores.
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def _varint(number: int) -> bytes:
    """Return the protocol-buffer encoding of a number: seven bits per byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _sized(data: bytes) -> bytes:
    """Return data with its length before it."""
    return _varint(len(data)) + data


def _varints(steps: np.ndarray[Any, Any]) -> Bytes:
    """Return the steps as varints of fixed width, one row for each."""
    shifts = np.arange(0, 7 * _STEP_BYTES, 7)
    groups = (np.asarray(steps, dtype=np.int64)[:, None] >> shifts) & 0x7F
    # All bytes but the last have the bit that another one follows, also after leading zeros.
    groups[:, :-1] |= 0x80
    return groups.astype(np.uint8)


def _floats(values: np.ndarray[Any, Any]) -> Bytes:
    """Return the values as bytes of float32, one row for each step."""
    with np.errstate(over="ignore"):  # values that are too large for a float32 become infinity
        return np.ascontiguousarray(values, dtype="<f4").view(np.uint8).reshape(len(values), -1)


@lru_cache(maxsize=1)
def _crc_table() -> list[int]:
    """Return the table of CRC-32C for single bytes."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        # The polynomial of CRC-32C with its bits reversed.
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1).astype(np.uint32)
    numbers: list[int] = table.tolist()
    return numbers


def _contributions(length: int) -> Words:
    """Return a table: how a byte that differs by x (column), with d bytes after it (row), changes the checksum."""
    # The length is rounded up to a power of two, so that few different tables are created.
    return _contribution_table(1 << (length - 1).bit_length())


@lru_cache(maxsize=8)
def _contribution_table(length: int) -> Words:
    """Return how each possible change of one byte changes the CRC of data with up to `length` bytes.

    The row is the number of bytes after the changed byte, the column the XOR difference of the byte.
    """
    table = _crc_table()
    single_bits = np.empty((length, 8), dtype=np.uint32)
    row = [table[1 << bit] for bit in range(8)]
    for distance in range(length):
        single_bits[distance] = row
        row = [table[crc & 0xFF] ^ (crc >> 8) for crc in row]
    # The checksum is linear, so the contribution of a byte is the XOR of the contributions of its bits.
    contributions = np.zeros((length, 256), dtype=np.uint32)
    for bit in range(8):
        known = 1 << bit
        contributions[:, known : 2 * known] = contributions[:, :known] ^ single_bits[:, bit : bit + 1]
    return contributions


def _crc(data: bytes) -> int:
    """Return the CRC-32C of data."""
    table = _crc_table()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _masked(crcs: Words) -> Words:
    """Return checksums as the format stores them, rotated and with the mask added modulo 2**32."""
    rotated: Words = (crcs >> np.uint32(15)) | (crcs << np.uint32(17))
    masked: Words = rotated + np.uint32(_MASK)
    return masked


def _stored_crc(data: bytes) -> bytes:
    """Return the checksum of data as the format stores it; see `_masked`."""
    crc = _crc(data)
    rotated = (crc >> 15) | (crc << 17)
    return struct.pack("<I", (rotated + _MASK) & 0xFFFFFFFF)


@lru_cache(maxsize=256)
def _header(length: int) -> bytes:
    """Return the header of a record: the length of the data and its checksum."""
    size = struct.pack("<Q", length)
    return size + _stored_crc(size)


def prepare() -> None:
    """Compute the checksum tables that most events need.

    Called in the process that trials are forked from, so that each trial inherits them.
    """
    # The rounded lengths of most events.
    for length in (64, 128, 256):
        _contribution_table(length)
