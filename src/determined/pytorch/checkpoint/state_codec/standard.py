"""Convert non-container values of the standard library and numpy to lists of simpler values, and back."""

from __future__ import annotations

import datetime
import importlib
import io
import math
import pathlib
import sys
import uuid
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch

_PATHS: dict[str, type] = {
    "PosixPath": pathlib.Path,
    "WindowsPath": pathlib.Path,
    "PurePosixPath": pathlib.PurePosixPath,
    "PureWindowsPath": pathlib.PureWindowsPath,
}


def _datetime(values: list[Any]) -> datetime.datetime:
    """Return the datetime that `KINDS` stored as these values."""
    year, month, day, hour, minute, second, microsecond, fold, zone = values
    return datetime.datetime(year, month, day, hour, minute, second, microsecond, zone, fold=fold)


def _time(values: list[Any]) -> datetime.time:
    """Return the time that `_values_of_time` returned these values for."""
    hour, minute, second, microsecond, fold, zone = values
    return datetime.time(hour, minute, second, microsecond, zone, fold=fold)


def _path(values: list[Any]) -> pathlib.PurePath:
    """Return the path of a stored class name and text; a path of another system becomes one of this system."""
    name, text = values
    return _PATHS[name](text)  # type: ignore[no-any-return]


def _bytes_io(values: list[Any]) -> io.BytesIO:
    """Return a stream with the stored content at the stored position."""
    content, position = values
    stream = io.BytesIO(content)
    stream.seek(position)
    return stream


def _integer_as_bytes(value: int) -> list[Any]:
    """Return an integer as bytes: torch's restricted loader does not read integers above 2,000 bits."""
    return [value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)]


# Name of the kind: its class, the conversion to a list of simpler values, and the conversion back.
_Kind = tuple[type, Callable[[Any], list[Any]], Callable[[list[Any]], Any]]

KINDS: dict[str, _Kind] = {
    "int": (int, _integer_as_bytes, lambda values: int.from_bytes(_checked_bytes(*values), "little", signed=True)),
    "empty bytes": (bytes, lambda value: [], lambda values: b""),
    "range": (range, lambda value: [value.start, value.stop, value.step], lambda values: range(*values)),
    "slice": (slice, lambda value: [value.start, value.stop, value.step], lambda values: slice(*values)),
    "bytearray": (bytearray, lambda value: [bytes(value)], lambda values: bytearray(_checked_bytes(*values))),
    "bytes stream": (io.BytesIO, lambda value: [value.getvalue(), value.tell()], _bytes_io),
    # Lambdas, because the functions are defined below.
    "date": (datetime.date, lambda value: _values_of_date(value), lambda values: datetime.date(*values)),
    "timedelta": (
        datetime.timedelta,
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda values: datetime.timedelta(*values),
    ),
    "timezone": (datetime.timezone, lambda value: list(value.__getinitargs__()), lambda v: datetime.timezone(*v)),
    "datetime": (
        datetime.datetime,
        lambda value: [*_values_of_date(value.date()), *_values_of_time(value.timetz())],
        _datetime,
    ),
    "time": (
        datetime.time,
        lambda value: _values_of_time(value),
        _time,
    ),
    "uuid": (uuid.UUID, lambda value: [value.bytes], lambda values: uuid.UUID(bytes=_checked_bytes(*values))),
    "numpy dtype": (np.dtype, lambda value: [_description(value)], lambda values: _dtype(*values)),
    "numpy array": (np.ndarray, lambda value: _array_values(value), lambda values: _array(*values)),
    "numpy scalar": (np.generic, lambda value: _array_values(np.asarray(value)), lambda v: _array(*v)[()]),
    **{
        f"path {name}": (getattr(pathlib, name), lambda value: [type(value).__name__, str(value)], _path)
        for name in _PATHS
    },
}

NAMES: dict[type, str] = {kind: name for name, (kind, _, _) in KINDS.items()}

# The same for classes of modules that take milliseconds to import. A program that has not imported the module has no
# value of the class. Name of the kind: module, class, to a list of simpler values, from such a list to its arguments.
_OF_OTHER_MODULES: dict[str, tuple[str, str, Callable[[Any], list[Any]], Callable[[list[Any]], list[Any]]]] = {
    "zone": ("zoneinfo", "ZoneInfo", lambda value: [value.key], lambda values: values),
    "decimal": ("decimal", "Decimal", lambda value: [str(value)], lambda values: values),
    "fraction": (
        "fractions",
        "Fraction",
        lambda value: [value.numerator, value.denominator],
        lambda values: [_checked_integer(value) for value in values],
    ),
}


def name_of(value: Any) -> str | None:
    """Return the kind of a value, or None if it is none of these."""
    name = NAMES.get(type(value))
    if name is None and isinstance(value, np.generic):
        return "numpy scalar"
    if name is None and isinstance(value, np.dtype):
        return "numpy dtype"  # each dtype has a separate class
    return _name_in_other_modules(type(value)) if name is None else name


def _name_in_other_modules(kind: type) -> str | None:
    """Return the kind of a class in a module that the program has imported, or None."""
    for name, (module, class_name, _, _) in _OF_OTHER_MODULES.items():
        # Not imported: a program that has not imported the module cannot have a value of its class.
        if kind.__name__ == class_name and kind is getattr(sys.modules.get(module), class_name, None):
            return name
    return None


def values_of(value: Any, name: str) -> list[Any]:
    """Return the list of simpler values; raise ValueError or TypeError if the value cannot be represented."""
    if name in _OF_OTHER_MODULES:
        return _OF_OTHER_MODULES[name][2](value)
    return KINDS[name][1](value)


def from_values(name: str, values: list[Any]) -> Any:
    """Return the value that `values_of` was called with; an invalid list can raise any exception."""
    if name in _OF_OTHER_MODULES:
        module, class_name, _, arguments = _OF_OTHER_MODULES[name]
        return getattr(importlib.import_module(module), class_name)(*arguments(values))
    return KINDS[name][2](values)


def _values_of_date(value: datetime.date) -> list[Any]:
    """Return a date as numbers."""
    return [value.year, value.month, value.day]


def _values_of_time(value: datetime.time) -> list[Any]:
    """Return a time as numbers and its time zone, which is encoded as a value of its own kind."""
    return [value.hour, value.minute, value.second, value.microsecond, value.fold, value.tzinfo]


def _checked_bytes(value: Any) -> bytes:
    """Return `value` if it is bytes, else raise TypeError."""
    if type(value) is not bytes:
        raise TypeError(f"expected bytes, got a {type(value).__name__}")  # bytearray(10**12) would allocate a terabyte
    return value


def _checked_integer(value: Any) -> int:
    """Return `value` if it is an int, else raise TypeError."""
    if type(value) is not int:
        raise TypeError(f"expected an integer, got a {type(value).__name__}")  # Fraction("1e999999999") takes hours
    return value


def _description(dtype: np.dtype[Any]) -> Any:
    """Return the description that numpy writes into files for a dtype: a string, or a list of fields."""
    # Pointers have no meaning in another process, and reading them would crash it.
    if dtype.hasobject:
        raise ValueError(f"a numpy array of {dtype} holds references to Python objects")
    described: Any = np.lib.format.dtype_to_descr(dtype)
    # numpy describes some types only approximately, so the description is read back and compared.
    if np.lib.format.descr_to_dtype(described) != dtype or dtype.type is not np.dtype(dtype.str).type:
        raise ValueError(f"numpy cannot describe the dtype {dtype} in a file")
    return described


def _dtype(described: Any) -> np.dtype[Any]:
    """Return the dtype of a description; raise for one that contains references to objects."""
    if type(described) not in (str, list, tuple):
        raise TypeError(f"a dtype is described by a string or a list, got a {type(described).__name__}")
    dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(described)
    if dtype.hasobject:
        raise ValueError("an array of references to Python objects cannot be read from a file")
    return dtype


def _array_values(array: np.ndarray[Any, Any]) -> list[Any]:
    """Return dtype, shape, memory order and the content as bytes, so that every dtype is restored unchanged."""
    described = _description(array.dtype)
    order: Literal["C", "F"] = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    if not array.nbytes:
        content = np.empty(0, np.uint8)
    elif array.flags.c_contiguous and array.flags.writeable:
        # Only for writable arrays, because torch warns about sharing read-only memory.
        content = array.reshape(-1).view(np.uint8)  # without a copy
    else:
        content = np.frombuffer(array.tobytes(order=order), np.uint8).copy()
    return [described, list(array.shape), order, torch.from_numpy(content)]


def _array(described: Any, shape: list[int], order: str, content: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return the array of a description, shape, order and bytes; raise if they do not fit each other."""
    dtype = _dtype(described)
    if not isinstance(content, torch.Tensor) or content.dtype is not torch.uint8 or content.dim() != 1:
        raise TypeError("the content of an array is a tensor of bytes")
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"an array has no shape {shape!r:.80}")
    # Otherwise numpy would read beyond the buffer or allocate what a hostile file asks for.
    if math.prod(shape) * dtype.itemsize != content.numel():
        raise ValueError(f"an array of shape {shape!r:.80} and dtype {dtype} does not have {content.numel()} bytes")
    # A copy, since the bytes belong to a tensor of the file, which other values may share.
    raw = content.cpu().contiguous().numpy().copy()
    return raw.view(dtype).reshape(shape, order=order) if content.numel() else np.empty(shape, dtype, order)  # type: ignore[call-overload, no-any-return]
