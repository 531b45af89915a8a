"""Write scalars into a TensorBoard event file, a whole report at once and without importing TensorBoard.

An event file is a sequence of records, each `length, crc(length), data, crc(data)`, the data a small
protocol-buffer message. The scalars of one step are encoded one by one, which needs no preparation. Per-batch scalars
of one report are alike but for the step and the values, so their records are stamped out of one template as a matrix of
bytes. The checksum (CRC-32C) is linear: that of a record is that of the template, changed by what each differing byte
contributes at its distance from the end.
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

_STEP_BYTES = 6  # steps as varints of fixed width: 42 bits
_EVENT_BYTES = 2000
_MASK = 0xA282EAD8  # the format adds it, because checksums of data that contains checksums are weak
_numbers = itertools.count()

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Words = np.ndarray[Any, np.dtype[np.uint32]]


class EventFileWriter:
    """Appends scalars to one event file in `directory`, which is made at the first write."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self._file: Any = None

    def add_scalars(self, rows: Iterable[tuple[str, int, float]]) -> None:
        """Write (tag, step, value) rows, those of one step that follow each other as one event."""
        for step, group in itertools.groupby(rows, key=lambda row: row[1]):
            values = b"".join(_value(tag, _float(value)) for tag, _, value in group)
            data = _timed() + b"\x10" + _varint(step) + b"\x2a" + _sized(values)
            self._open().write(_record(data))

    def add_series(self, tags: Sequence[str], steps: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
        """Write a matrix of values: one row per step, one column per tag."""
        if len(steps):
            for columns in _bounded(tags):
                self._add_records(tags[columns], steps, values[:, columns])

    def _add_records(self, tags: Sequence[str], steps: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
        event = _event(tuple(tags))
        moment = np.frombuffer(struct.pack("<d", time.time()), dtype=np.uint8)
        records = np.repeat(event.record, len(steps), axis=0)
        records[:, event.time_at] = moment
        stamped = np.concatenate([_varints(steps), _floats(values)], axis=1)
        records[:, event.stamped_at] = stamped

        # The template is all zeros where it is stamped, so that what is stamped is what changes the checksum.
        checksums = np.bitwise_xor.reduce(event.stamp_contributions.take(stamped + event.stamp_rows), axis=1)
        checksums ^= event.checksum ^ np.bitwise_xor.reduce(event.time_contributions.take(moment + event.time_rows))
        records[:, -4:] = _masked(checksums).astype("<u4").view(np.uint8).reshape(-1, 4)
        self._open().write(records.tobytes())

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> Any:
        if self._file is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            # The last part keeps us from the names of a SummaryWriter, which would overwrite the file.
            number = f"{os.getpid()}.{next(_numbers)}.loop"
            name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{number}"
            self._file = open(self.directory / name, "ab", opener=_private)  # noqa: SIM115 - open until close()
            self._file.write(_record(_timed() + b"\x1a" + _sized(b"brain.Event:2")))
        return self._file


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _bounded(tags: Sequence[str]) -> Iterator[slice]:
    """Tags in groups that fit into one event of moderate length: tables for checksums grow with it."""
    begin = size = 0
    for at, tag in enumerate(tags):
        if size + len(tag) > _EVENT_BYTES and at > begin:
            yield slice(begin, at)
            begin, size = at, 0
        size += len(tag) + 10
    if begin < len(tags):
        yield slice(begin, len(tags))


class _Event(NamedTuple):
    """A record to stamp times, steps and values into: zeros where they go, and what each byte does to the checksum."""

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
    """An event with room for the time, the step and one value per tag."""
    head = b"\x09" + bytes(8) + b"\x10" + bytes(_STEP_BYTES) + b"\x2a"
    values = [_value(tag, bytes(4)) for tag in tags]
    head += _varint(sum(len(value) for value in values))
    data = head + b"".join(values)

    value_ends = itertools.accumulate((len(value) for value in values), initial=len(head))
    places = [*range(10, 10 + _STEP_BYTES)]
    for end in list(value_ends)[1:]:
        places += range(end - 4, end)
    stamped_at = np.array(places)
    table = _contributions(len(data))
    last = len(data) - 1
    return _Event(
        record=np.frombuffer(_header(len(data)) + data + bytes(4), dtype=np.uint8)[None, :],
        checksum=np.uint32(_crc(data)),
        time_at=slice(12 + 1, 12 + 9),
        time_rows=np.arange(8) * 256,
        time_contributions=table[last - np.arange(1, 9)].ravel(),
        stamped_at=stamped_at + 12,
        stamp_rows=np.arange(len(places)) * 256,
        stamp_contributions=table[last - stamped_at].ravel(),
    )


def _record(data: bytes) -> bytes:
    """A whole record of the file, with this event as its data."""
    return _header(len(data)) + data + _stored_crc(data)


def _timed() -> bytes:
    """The beginning of an event: when it is written."""
    return b"\x09" + struct.pack("<d", time.time())


def _value(tag: str, number: bytes) -> bytes:
    """One scalar of an event, its value given as the four bytes of a float32."""
    return b"\x0a" + _sized(b"\x0a" + _sized(tag.encode(errors="replace")) + b"\x15" + number)


def _float(value: float) -> bytes:
    """The bytes of a float32; what is too large for one is shown as infinite."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _sized(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _varints(steps: np.ndarray[Any, Any]) -> Bytes:
    shifts = np.arange(0, 7 * _STEP_BYTES, 7)
    groups = (np.asarray(steps, dtype=np.int64)[:, None] >> shifts) & 0x7F
    groups[:, :-1] |= 0x80
    return groups.astype(np.uint8)


def _floats(values: np.ndarray[Any, Any]) -> Bytes:
    with np.errstate(over="ignore"):  # what is too large for a float32 is shown as infinite
        return np.ascontiguousarray(values, dtype="<f4").view(np.uint8).reshape(len(values), -1)


@lru_cache(maxsize=1)
def _crc_table() -> list[int]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1).astype(np.uint32)
    numbers: list[int] = table.tolist()
    return numbers


def _contributions(length: int) -> Words:
    """Row d, column x: what a byte that differs by x, with d bytes after it, changes in the checksum."""
    # Powers of two keep the number of tables that are ever made small.
    return _contribution_table(1 << (length - 1).bit_length())


@lru_cache(maxsize=8)
def _contribution_table(length: int) -> Words:
    table = _crc_table()
    single_bits = np.empty((length, 8), dtype=np.uint32)
    row = [table[1 << bit] for bit in range(8)]
    for distance in range(length):
        single_bits[distance] = row
        row = [table[crc & 0xFF] ^ (crc >> 8) for crc in row]
    # The checksum is linear: a byte contributes what its bits do, so the columns of larger bytes follow from these.
    contributions = np.zeros((length, 256), dtype=np.uint32)
    for bit in range(8):
        known = 1 << bit
        contributions[:, known : 2 * known] = contributions[:, :known] ^ single_bits[:, bit : bit + 1]
    return contributions


def _crc(data: bytes) -> int:
    table = _crc_table()
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _masked(crcs: Words) -> Words:
    """Checksums as the format stores them; numbers wrap around at 32 bits."""
    rotated: Words = (crcs >> np.uint32(15)) | (crcs << np.uint32(17))
    masked: Words = rotated + np.uint32(_MASK)
    return masked


def _stored_crc(data: bytes) -> bytes:
    """The checksum as `_masked` makes it, of one text."""
    crc = _crc(data)
    rotated = (crc >> 15) | (crc << 17)
    return struct.pack("<I", (rotated + _MASK) & 0xFFFFFFFF)


@lru_cache(maxsize=256)
def _header(length: int) -> bytes:
    size = struct.pack("<Q", length)
    return size + _stored_crc(size)


def prepare() -> None:
    """Make the tables that nearly every event needs; the warm process does, so that trials copied from it have them."""
    for length in (64, 128, 256):
        _contribution_table(length)
