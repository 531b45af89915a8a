"""Validates rows read from an export file before they are stored. Nothing in the file is trusted."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from determined.errors import StoreError
from determined.names import NAME_RULE, is_file_name, is_name, is_plain_directory, is_uuid
from determined.store.databases.column_checks import JSON_COLUMNS, WORDS, configuration_mistake, shape_mistake
from determined.store.databases.tables import Column, Table

_LARGEST_TEXT = 64 * 1024 * 1024  # bounds the memory that one value of an untrusted file can take
# The ranges of the columns, but not above 2**53, up to which JSON parsers with floats read integers exactly.
_LARGEST = {"flag": 1, "integer": 2**31 - 1, "long": 2**53}
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_TIMES = ("created", "ended", "started", "reported", "written", "updated", "since")
_END_OF_TIME = 253_402_300_800.0  # the year 10000, which Python's datetime cannot represent
_UPLOAD_KEY = re.compile("[0-9a-f]{32}")  # becomes part of a path


def checked_row(table: Table, row: dict[str, Any], place: str) -> dict[str, Any]:
    """Return a row with all columns of its table, validated. Raise `StoreError` for an invalid value.

    Columns that an older version did not have get their defaults.
    """
    unknown = sorted(set(row) - set(table.names))
    if unknown:
        raise StoreError(f"{place}: {table.name} has no column {unknown[0][:100]!r}")
    checked = {}
    for column in table.columns:
        value = row.get(column.name, column.default)
        try:
            checked[column.name] = _checked(table.name, column, value)
        except _Mistake as mistake:
            raise StoreError(f"{place}: {column.name} of a row of {table.name} {mistake}") from None
    wrong = configuration_mistake(checked["config"]) if table.name == "experiments" and not checked["by_hand"] else None
    if wrong is not None:
        raise StoreError(f"{place}: config of a row of {table.name} {wrong}")
    return checked


class _Mistake(Exception):
    """The description of an invalid value, without the name of its column."""


def _checked(table: str, column: Column, value: Any) -> Any:
    """Return a value if it is valid for the column, else raise `_Mistake`."""
    if value is None:
        if not column.nullable:
            raise _Mistake("is missing")
        return None
    if column.kind == "text":
        return _checked_text(table, column.name, value)
    if column.kind == "real":
        return _checked_real(column.name, value)
    # The exact type, because True and False are integers in Python.
    if type(value) is not int:
        raise _Mistake(f"is not a whole number: {_shown(value)}")
    if abs(value) > _LARGEST[column.kind] or (column.kind == "flag" and value < 0):
        raise _Mistake(f"is out of range: {_shown(value)}")
    if value < 1 and (column.name == "id" or column.name.endswith("_id")):
        raise _Mistake(f"cannot be an id: {_shown(value)}")
    return value


def _checked_text(table: str, name: str, value: Any) -> str:
    """Return a text that the column can store; raise an error for anything else."""
    if not isinstance(value, str):
        raise _Mistake(f"is not a text: {_shown(value)}")
    if len(value) > _LARGEST_TEXT:
        raise _Mistake(f"has {len(value):,} characters; the maximum is {_LARGEST_TEXT:,}")
    # JSON can contain lone surrogates, which cannot be encoded as UTF-8, and NUL, which PostgreSQL rejects.
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in _non_ascii(value)):
        raise _Mistake("has characters that no database takes")
    words = WORDS.get((table, name))
    if words and value not in words:
        raise _Mistake(f"is {_shown(value)}: expected one of {', '.join(words)}")
    shape = JSON_COLUMNS.get((table, name))
    mistake = None if shape is None else shape_mistake(value, shape)
    if mistake is not None:
        raise _Mistake(mistake)
    _check_paths(table, name, value)
    return value


def _check_paths(table: str, name: str, value: str) -> None:
    """Raise `_Mistake` for a value that is used as a path, or in one, and could lead to another directory."""
    if (table, name) == ("experiments", "key") and not is_name(value):
        raise _Mistake(f"is {_shown(value)}, which cannot be the key of an experiment: expected {NAME_RULE}")
    # Only a UUID is accepted: the storage may contain other directories of ours, such as `experiments`, which would be
    # removed with a checkpoint of that name.
    if (name == "checkpoint" or (table, name) == ("checkpoints", "uuid")) and not is_uuid(value):
        raise _Mistake(f"is {_shown(value)}, which cannot be the id of a checkpoint")
    if (table, name) == ("trials", "source") and not is_name(value):
        raise _Mistake(f"is {_shown(value)}, which cannot be the id of a checkpoint")
    if (table, name) in (("checkpoints", "resources"), ("uploads", "files")):
        for file in json.loads(value):
            if not is_file_name(file):
                raise _Mistake(f"names {_shown(file)}, which is no name for a file of a checkpoint or an output")
    if (table, name) == ("outputs", "uuid") and not is_uuid(value.removeprefix("output-")):
        raise _Mistake(f"is {_shown(value)}, which cannot be the id of an output")
    if (table, name) == ("uploads", "key") and not _UPLOAD_KEY.fullmatch(value):
        raise _Mistake(f"is {_shown(value)}, which cannot be the key of an upload")
    if (table, name) == ("attempts", "run_dir") and not is_plain_directory(value):
        raise _Mistake(f"is {_shown(value)}, which is no absolute path without '..'")
    if name == "storage" and "://" not in value and not is_plain_directory(value):
        raise _Mistake(f"is {_shown(value)}, which is no absolute path without '..', and no URL")


def _checked_real(name: str, value: Any) -> float:
    """Return a number that the column can store; raise an error for anything else."""
    # A metric value may be NaN; a time may not, because nothing could sort or show it.
    if name not in _TIMES and isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if type(value) not in (int, float):
        raise _Mistake(f"is not a number: {_shown(value)}")
    # NaN fails this comparison too.
    if name in _TIMES and not 0 <= value < _END_OF_TIME:
        raise _Mistake(f"is not a valid time: {_shown(value)}")
    try:
        return float(value)
    # An integer of a JSON file can have any number of digits.
    except OverflowError:
        raise _Mistake("is too large a number") from None


def _non_ascii(text: str) -> str:
    """Return the text unless it is ASCII, which needs no search for surrogates."""
    return "" if text.isascii() else text


def _shown(value: Any) -> str:
    """Return the representation of a value, shortened for a message."""
    shown = repr(value)
    return shown if len(shown) <= 100 else f"{shown[:100]}..."
