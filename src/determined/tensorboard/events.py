"""Write scalars into a TensorBoard event file, a whole report at once and without importing TensorBoard.

An event file is a sequence of records, each `length, crc(length), data, crc(data)`, the data a small
protocol-buffer message. Per-batch scalars of one report are alike but for the step and the values, so their records
are stamped out of one template as a matrix of bytes. The checksum (CRC-32C) is linear: that of a record is that of
the template, changed by what each differing byte contributes at its distance from the end.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

_STEP_BYTES = 6  # steps as varints of fixed width: 42 bits
_numbers = itertools.count()

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Words = np.ndarray[Any, np.dtype[np.uint32]]


class EventFileWriter:
    """Appends scalars to one event file in `directory`, which is made at the first write."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        self._file: Any = None

    def add_scalars(self, rows: Iterable[tuple[str, int, float]]) -> None:
        """Write (tag, step, value) rows."""
        for step, group in itertools.groupby(rows, key=lambda row: row[1]):
            members = list(group)
            values = np.array([[value for _, _, value in members]], dtype=np.float64)
            self.add_series([tag for tag, _, _ in members], np.array([step]), values)

    def add_series(self, tags: Sequence[str], steps: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> None:
        """Write a matrix of values: one row per step, one column per tag."""
        if not len(tags) or not len(steps):
            return
        template, step_at, values_at = _template(tuple(tags))
        moment = struct.pack("<d", time.time())
        data = np.frombuffer(template.replace(_NO_TIME, moment, 1), dtype=np.uint8)

        changing = [*range(step_at, step_at + _STEP_BYTES)]
        for at in values_at:
            changing += range(at, at + 4)
        stamped = np.concatenate([_varints(steps), _floats(values)], axis=1)

        records = np.empty((len(steps), 12 + len(data) + 4), dtype=np.uint8)
        records[:, :12] = np.frombuffer(_header(len(data)), dtype=np.uint8)
        records[:, 12:-4] = data
        delta = stamped ^ data[changing]
        records[:, [12 + at for at in changing]] = stamped

        distances = np.array([len(data) - 1 - at for at in changing])
        tables = _contributions(len(data))
        checksums = np.bitwise_xor.reduce(tables[distances, delta], axis=1) ^ np.uint32(_crc(bytes(data)))
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
            now = time.time()
            name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
            self._file = open(self.directory / name, "ab")  # noqa: SIM115 - open until close()
            version = b"\x09" + struct.pack("<d", now) + b"\x1a" + _sized(b"brain.Event:2")
            self._file.write(_header(len(version)) + version + _stored_crc(version))
        return self._file


_NO_TIME = b"\x01\x02\x03\x04\x05\x06\x07\x08"


@lru_cache(maxsize=64)
def _template(tags: tuple[str, ...]) -> tuple[bytes, int, list[int]]:
    """An event with room for the time, the step and one value per tag; and where step and values lie."""
    step = b"\x80" * (_STEP_BYTES - 1) + b"\x00"
    head = b"\x09" + _NO_TIME + b"\x10" + step + b"\x2a"
    names = [b"\x0a" + _sized(tag.encode()) for tag in tags]
    values = [b"\x0a" + _sized(name + b"\x15" + b"\0\0\0\0") for name in names]
    head += _varint(sum(len(value) for value in values))
    ends = itertools.accumulate((len(value) for value in values), initial=len(head))
    return head + b"".join(values), 10, [end - 4 for end in list(ends)[1:]]


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
def _crc_table() -> Words:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1).astype(np.uint32)
    return table


def _contributions(length: int) -> Words:
    """Row d, column x: what a byte that differs by x, with d bytes after it, changes in the checksum."""
    # Powers of two keep the number of tables that are ever made small.
    return _contribution_table(1 << (length - 1).bit_length())


@lru_cache(maxsize=8)
def _contribution_table(length: int) -> Words:
    table = _crc_table()
    rows = [table]
    for _ in range(length - 1):
        rows.append(table[rows[-1] & 0xFF] ^ (rows[-1] >> 8))
    return np.stack(rows)


def _crc(data: bytes) -> int:
    table = _contributions(len(data) or 1)
    empty = _crc_of_zeros(len(data))
    distances = np.arange(len(data) - 1, -1, -1)
    return int(np.bitwise_xor.reduce(table[distances, np.frombuffer(data, dtype=np.uint8)])) ^ empty


@lru_cache(maxsize=256)
def _crc_of_zeros(length: int) -> int:
    table = _crc_table()
    crc = 0xFFFFFFFF
    for _ in range(length):
        crc = int(table[crc & 0xFF]) ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _masked(crcs: Words) -> Words:
    """Checksums as the format stores them; numbers wrap around at 32 bits."""
    rotated: Words = (crcs >> np.uint32(15)) | (crcs << np.uint32(17))
    masked: Words = rotated + np.uint32(0xA282EAD8)
    return masked


def _stored_crc(data: bytes) -> bytes:
    return _masked(np.array([_crc(data)], dtype=np.uint32)).astype("<u4").tobytes()


@lru_cache(maxsize=256)
def _header(length: int) -> bytes:
    size = struct.pack("<Q", length)
    return size + _stored_crc(size)
