"""Translates imported rows for the target store: new ids, references to them, and detection of known experiments."""

from __future__ import annotations

from typing import Any

from determined.errors import StoreError
from determined.store.databases.base import Database
from determined.store.databases.tables import Table
from determined.store.moving.reading_store import Rows

Row = dict[str, Any]

# Tables whose ids occur in other rows, so that the new id of each row must be kept.
_NAMED = ("experiments", "trials", "models", "model_versions", "requests", "experiment_requests")
# Tables with a `last_request` column -> the table of requests that the column refers to.
_LAST_REQUEST = {"experiments": "experiment_requests", "trials": "requests"}


class RowTranslation:
    """An import in progress, which translates row by row.

    An experiment whose key exists in the store is skipped with everything that belongs to it. The files of imported
    rows belong to the store that they come from, unless they are taken over.
    """

    def __init__(self, database: Database, *, keep_ids: bool, take_over: bool) -> None:
        self.keep_ids = keep_ids
        self._take_over = take_over
        self._database = database
        self._numbers: dict[str, dict[int, int]] = {name: {} for name in _NAMED}
        self._known_experiments: set[int] = set()  # source ids
        self._known_trials: set[int] = set()
        self._experiments: dict[int, Row] = {}
        self._key_of_trial: dict[int, str] = {}
        self._last_requests: list[tuple[str, int, int]] = []  # table, new id, source id of the request
        self._known_models: set[int] = set()
        self._last_versions: dict[int, int] = {}  # highest version number by new model id

    def experiments(self) -> list[tuple[int, int, str, bool]]:
        """Return (source id, new id, name, whether it is new) of each experiment."""
        return [
            (there, self._numbers["experiments"][there], row["name"], there not in self._known_experiments)
            for there, row in self._experiments.items()
        ]

    def take(self, table: Table, rows: Rows, place: str) -> Rows:
        """Return the rows that are not in the store yet, translated for it."""
        wanted = [row for row in rows if not self._is_in_store(table, row)]
        # Numbered before references are translated: a trial may refer to another one in the same chunk as its parent.
        if table.counts:
            self._number(table, wanted, place)
        return [self._translated(table, row, place) for row in wanted]

    def finish(self) -> None:
        """Set the values that depend on rows of later tables: newest requests, and version counters of models."""
        for table, here, request in self._last_requests:
            if not request:
                continue
            # Requests keep their order, so those up to `request` are the ones that were handled in the source store.
            seen = [new for old, new in self._numbers[_LAST_REQUEST[table]].items() if old <= request]
            self._database.execute(f"UPDATE {table} SET last_request = ? WHERE id = ?", [max(seen, default=0), here])
        for model, version in self._last_versions.items():
            self._database.execute(
                "UPDATE models SET last_version = ? WHERE id = ? AND last_version < ?", [version, model, version]
            )

    def _is_in_store(self, table: Table, row: Row) -> bool:
        """Return whether the store already has a row, and remember its id."""
        # Experiments are recognized by their key, which contains a UUID, and models by their name.
        if table.name == "experiments":
            self._experiments[row["id"]] = row
            return self._remember(table, row, "key = ?", [row["key"]], self._known_experiments)
        if table.has("experiment_id") and row["experiment_id"] in self._known_experiments:
            if table.name == "trials":
                experiment = self._numbers["experiments"][row["experiment_id"]]
                values = [experiment, row["number"]]
                self._remember(table, row, "experiment_id = ? AND number = ?", values, self._known_trials)
            return True
        if table.has("trial_id") and row["trial_id"] in self._known_trials:
            return True
        if table.name == "models":
            return self._remember(table, row, "name = ?", [row["name"]], self._known_models)
        if table.name == "model_versions" and row["model_id"] in self._known_models:
            values = [self._numbers["models"][row["model_id"]], row["checkpoint"]]
            # An empty set, because no other table belongs to a version in a way that would skip its rows.
            return self._remember(table, row, "model_id = ? AND checkpoint = ?", values, set())
        return False

    def _remember(self, table: Table, row: Row, condition: str, values: list[Any], known: set[int]) -> bool:
        """Return whether the store has a row that satisfies the condition, and remember its id."""
        found = self._database.execute(f"SELECT id FROM {table.name} WHERE {condition}", values)
        if found:
            self._numbers[table.name][row["id"]] = found[0][0]
            known.add(row["id"])
        return bool(found)

    def _number(self, table: Table, rows: Rows, place: str) -> None:
        """Give the rows their ids in the store."""
        numbers = [row["id"] for row in rows] if self.keep_ids else self._database.reserve_ids(table.name, len(rows))
        for row, number in zip(rows, numbers, strict=True):
            if table.name in _NAMED:
                # Only a damaged or forged file has such rows, and references to them would be ambiguous.
                if row["id"] in self._numbers[table.name]:
                    raise StoreError(f"{place}: two rows of {table.name} have the number {row['id']}")
                self._numbers[table.name][row["id"]] = number
            row["id"] = number

    def _translated(self, table: Table, row: Row, place: str) -> Row:
        """Return a row with references, owners and keys changed for the store."""
        # The ids of the source store are needed after the row itself has been changed.
        there = dict(row)
        for reference in table.references:
            # References by UUID stay: they are the same in every store.
            if reference.target == "id":
                row[reference.column] = self._referenced_id(table, reference.column, reference.table, row, place)
        if table.name in _LAST_REQUEST and not self.keep_ids:
            self._last_requests.append((table.name, row["id"], there["last_request"]))
            row["last_request"] = 0
        if table.has("borrowed") and not self._take_over:
            row["borrowed"] = 1
        if table.name == "leases":  # the holder runs the experiment in the source store, not in this one
            row.update(host=None, pid=None, process_started=None, since=None)
        if table.name == "trials":
            self._key_of_trial[row["id"]] = self._experiments[there["experiment_id"]]["key"]
            row["allocation"] = self._own_key(row["id"], row["allocation"])
        if table.name == "attempts":
            row["key"] = self._own_key(row["trial_id"], row["key"])
        if table.name == "model_versions":
            of_new_model = there["model_id"] not in self._known_models
            row["number"] = self._version_number(row["model_id"], row["number"], of_new_model=of_new_model)
        return row

    def _referenced_id(self, table: Table, column: str, other: str, row: Row, place: str) -> int | None:
        """Return the new id of the row that a column refers to."""
        number = row[column]
        if number is None:
            return None
        here = self._numbers[other].get(number)
        nullable = next(each.nullable for each in table.columns if each.name == column)
        if here is None and not nullable:
            raise StoreError(f"{place}: a row of {table.name} belongs to {other} {number}, which is not in it")
        return here  # None: a parent that was not exported is dropped

    def _own_key(self, trial_id: int, key: str) -> str:
        """Return the imported form of an attempt's or allocation's key: prefixed if it contains ids of its store.

        Such keys are made of ids of the source store, which may be those of another trial here.
        """
        if self.keep_ids or not key or "." not in key:
            return key
        return f"{self._key_of_trial[trial_id]}:{key}"

    def _version_number(self, model_id: int, number: int, *, of_new_model: bool) -> int:
        """Return the number of an imported model version: its own, unless the existing model has reached it already."""
        ((last,),) = self._database.execute("SELECT last_version FROM models WHERE id = ?", [model_id])
        last = max(last, self._last_versions.get(model_id, 0))
        given = number if of_new_model or number > last else last + 1
        self._last_versions[model_id] = max(last, given)
        # Remembered until `finish`, because the model's counter in the database is only set there.
        return given
