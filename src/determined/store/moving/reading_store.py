"""Reads the rows of a store for an export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from determined.errors import NotFoundException
from determined.store.databases.base import Database
from determined.store.databases.tables import Table
from determined.store.sql.paging import pages

Rows = list[dict[str, Any]]

_TRIALS = "SELECT id FROM trials WHERE experiment_id IN ({marks})"
_CHECKPOINTS = f"SELECT uuid FROM checkpoints WHERE trial_id IN ({_TRIALS})"


class Source:
    """The rows to export: of all experiments, or of some with everything that belongs to them."""

    def __init__(self, database: Database, experiments: Sequence[int] | None) -> None:
        self._database = database
        # `dict.fromkeys` removes ids that were given twice.
        self._experiments = None if experiments is None else list(dict.fromkeys(experiments))
        for experiment_id in self._experiments or ():
            if not database.execute("SELECT 1 FROM experiments WHERE id = ?", [experiment_id]):
                raise NotFoundException.of("experiment", experiment_id)

    def count(self, table: Table) -> int:
        """Return the number of rows of a table to export."""
        condition, values = self._condition(table)
        where = f"WHERE {condition}" if condition else ""
        ((count,),) = self._database.execute(f"SELECT count(*) FROM {table.name} {where}", values)
        return int(count)

    def rows(self, table: Table) -> Iterator[Rows]:
        """Yield the rows of a table to export in chunks."""
        condition, values = self._condition(table)
        for page in pages(self._database, table, table.names, condition, values):
            yield [dict(zip(table.names, row, strict=True)) for row in page]

    def _condition(self, table: Table) -> tuple[str, list[int]]:
        """Return the SQL condition for the rows of a table to export, and its values.

        A row that refers to a row which is not exported is not exported either.
        """
        if self._experiments is None:
            return "", []
        marks = ", ".join("?" * len(self._experiments))
        trials, checkpoints = _TRIALS.format(marks=marks), _CHECKPOINTS.format(marks=marks)
        if table.name == "experiments":
            conditions = [f"id IN ({marks})"]
        elif table.name == "models":
            conditions = [f"id IN (SELECT model_id FROM model_versions WHERE checkpoint IN ({checkpoints}))"]
        elif table.has("experiment_id"):
            conditions = [f"experiment_id IN ({marks})"]
        else:
            conditions = [f"trial_id IN ({trials})"] if table.has("trial_id") else []
            conditions += [f"checkpoint IN ({checkpoints})"] if table.has("checkpoint") else []
        return " AND ".join(conditions), self._experiments * len(conditions)
