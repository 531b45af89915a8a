"""Encode curves as bytes for the cache file, and decode them with every length checked."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from determined.curves.levels import ARRAYS, Level
from determined.curves.thin import Points

# Kind, exponent, number of entries, first and last point.
_HEADER = struct.Struct("<BhIdddd")
_POINTS, _LEVEL = 1, 2
_KINDS = ("u1", "u2", "u4", "i8", "f8")
# Most integers of a level are small or zero: each array is stored with the narrowest type that holds it.
_SMALLEST_FIRST = _KINDS[:4]
_ZEROS = 255  # an array of zeros, which takes no space


def encode(curve: Points | Level) -> bytes:
    """Return a curve as bytes."""
    if isinstance(curve, Points):
        arrays = [_packed(curve.x), _packed(curve.values)]
        return _HEADER.pack(_POINTS, 0, len(curve.x), 0.0, 0.0, 0.0, 0.0) + b"".join(arrays)
    length = len(curve.buckets)
    # Neighbours differ by one where no bucket is empty.
    steps = np.diff(curve.buckets, prepend=0)
    arrays = [_packed(steps), *(_packed(getattr(curve, name)) for name in ARRAYS[1:])]
    ends = (curve.first_x, curve.first_value, curve.last_x, curve.last_value)
    return _HEADER.pack(_LEVEL, curve.exponent, length, *ends) + b"".join(arrays)


def decode(data: bytes) -> Points | Level:
    """Return the curve that was encoded. Raises ValueError if the bytes are of another format or damaged."""
    if len(data) < _HEADER.size:
        raise ValueError("too short for a curve")
    kind, exponent, length, *ends = _HEADER.unpack_from(data)
    if kind not in (_POINTS, _LEVEL):
        raise ValueError(f"a curve of the unknown kind {kind}")
    place, arrays = _HEADER.size, list[NDArray[Any]]()
    for _ in range(2 if kind == _POINTS else len(ARRAYS)):
        array, place = _unpacked(data, place, length)
        arrays.append(array)
    if place != len(data):
        raise ValueError("a curve with more bytes than its length says")
    if kind == _POINTS:
        return Points(*arrays)
    buckets, low, high, *counts = arrays
    parts: list[Any] = [np.cumsum(buckets, dtype=np.int64), low, high, *(each.astype(np.int64) for each in counts)]
    return Level(exponent, *parts, *ends)


def _packed(array: NDArray[Any]) -> bytes:
    """Encode an array: one byte for the type, then the content; an array of zeros has none."""
    if array.dtype.kind in "iu":
        if not array.any():
            return bytes([_ZEROS])
        low, high = int(array.min()), int(array.max())
        fitting = (name for name in _SMALLEST_FIRST if np.iinfo(name).min <= low and high <= np.iinfo(name).max)
        array = array.astype(next(fitting))
    return bytes([_KINDS.index(f"{array.dtype.kind}{array.dtype.itemsize}")]) + array.tobytes()


def _unpacked(data: bytes, place: int, length: int) -> tuple[NDArray[Any], int]:
    """Decode the array of `length` values at a byte offset; return it and the offset of the first byte after it."""
    if place >= len(data):
        raise ValueError("a curve that was cut off")
    kind, place = data[place], place + 1
    if kind == _ZEROS:
        return np.zeros(length, dtype=np.int64), place
    if kind >= len(_KINDS):
        raise ValueError(f"an array of the unknown type {kind}")
    dtype = np.dtype(_KINDS[kind])
    end = place + length * dtype.itemsize
    if end > len(data):
        raise ValueError("a curve that was cut off")
    return np.frombuffer(data, dtype, length, place), end
