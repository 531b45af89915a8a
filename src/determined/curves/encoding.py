"""Encode curves as bytes for the cache file, and decode them with every length checked."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from determined.curves.levels import Level
from determined.curves.thin import Points

# Kind, exponent, number of entries. The first byte also is the version of the format.
_HEADER = struct.Struct("<BhI")
_POINTS, _LEVEL = 1, 2

_POINT_FIELDS: tuple[tuple[str, Any], ...] = (("x", np.float64), ("values", np.float64))
_LEVEL_FIELDS: tuple[tuple[str, Any], ...] = (
    ("buckets", np.int64),
    ("low", np.float64),
    ("high", np.float64),
    ("low_first", np.bool_),
    ("counts", np.int64),
    ("nans", np.int64),
    ("positive_infinities", np.int64),
    ("negative_infinities", np.int64),
)


def encode(curve: Points | Level) -> bytes:
    """Return a curve as bytes."""
    if isinstance(curve, Points):
        kind, exponent, fields = _POINTS, 0, _POINT_FIELDS
    else:
        kind, exponent, fields = _LEVEL, curve.exponent, _LEVEL_FIELDS
    arrays = [np.ascontiguousarray(getattr(curve, name), dtype=dtype) for name, dtype in fields]
    return _HEADER.pack(kind, exponent, len(arrays[0])) + b"".join(array.tobytes() for array in arrays)


def decode(data: bytes) -> Points | Level:
    """Return the curve that was encoded. Raises ValueError if the bytes are of another format or damaged."""
    if len(data) < _HEADER.size:
        raise ValueError("too short for a curve")
    kind, exponent, length = _HEADER.unpack_from(data)
    if kind not in (_POINTS, _LEVEL):
        raise ValueError(f"a curve of the unknown kind {kind}")
    place, arrays = _HEADER.size, []
    for _, dtype in _POINT_FIELDS if kind == _POINTS else _LEVEL_FIELDS:
        size = length * np.dtype(dtype).itemsize
        if place + size > len(data):
            raise ValueError("a curve that was cut off")
        arrays.append(np.frombuffer(data, dtype, length, place))
        place += size
    if place != len(data):
        raise ValueError("a curve with more bytes than its length says")
    return Points(*arrays) if kind == _POINTS else Level(exponent, *arrays)
