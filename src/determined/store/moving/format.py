"""The header of an export, and the list of exported tables."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from determined.errors import StoreError
from determined.store.databases.schema import MIGRATIONS
from determined.store.databases.tables import Table, all_tables

NAME = "determined-store"
VERSION = 1  # to be increased if earlier versions of this library could not read an export any more

# Not exported: the queue, the identity of the store, and checkpoints being published concern this store only.
_STAY = ("queue", "store_identity", "publishing")
# Nor are the stamps of a trial's reports. An import sets new ones, because the reports of an export may be different.
_STAMPS = ("changes", "rewrites")


@dataclass(frozen=True)
class Header:
    """The header of an export, which is written and read first."""

    schema: int = len(MIGRATIONS)

    def plain(self) -> dict[str, Any]:
        """Return the header as a dict, to be written as JSON."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return {"format": NAME, "version": VERSION, "schema": self.schema, "exported": moment}


def not_an_export(place: str) -> StoreError:
    """Return the error for a file that no command for exports has written."""
    return StoreError(f"{place} is neither an archive (det experiment export) nor an export of rows (det store export)")


def read_header(value: Any, place: str) -> Header:
    """Return the header of an export; raise `StoreError` for other files, and for those of newer versions."""
    if not isinstance(value, dict) or value.get("format") != NAME:
        raise not_an_export(place)
    version, schema = value.get("version"), value.get("schema")
    for number in (version, schema):
        # The exact type, because True is an integer in Python.
        if type(number) is not int or number < 1:
            raise StoreError(f"{place} does not say which version of the format it has")
    assert isinstance(version, int)
    assert isinstance(schema, int)
    if version > VERSION or schema > len(MIGRATIONS):
        raise StoreError(
            f"{place} was written by a newer version of determined-pytorch (format {version}, schema {schema}; this "
            f"version knows {VERSION} and {len(MIGRATIONS)}): upgrade first"
        )
    return Header(schema)


def moved_tables() -> dict[str, Table]:
    """Return the exported tables in the order they are written: each after those that it refers to."""
    tables = {name: table for name, table in all_tables().items() if name not in _STAY}
    trials = tables["trials"]
    columns = tuple(column for column in trials.columns if column.name not in _STAMPS)
    return tables | {"trials": replace(trials, columns=columns)}
