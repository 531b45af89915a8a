"""Show a summary of each metric of a trial as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from determined.cli.display.table import Column, Row, table
from determined.store.sql.summaries import Summary, summarize

if TYPE_CHECKING:
    from determined.store.records import Metric

MEASURES = ("count", "last", "min", "max", "mean", "sum", "type")
COLUMNS = [
    Column("Group", rank=0),
    Column("Metric", long=True, rank=0),
    *(Column(measure, long=measure == "last", rank=0 if measure == "last" else 2) for measure in MEASURES),
]


def summary_rows(summary: Summary) -> list[Row]:
    """Return a row for each metric."""
    return [
        [group, name, *(measures.get(measure) for measure in MEASURES)]
        for group, metrics in summary.items()
        for name, measures in metrics.items()
    ]


def summary_table(reports: Sequence[Metric]) -> str:
    """Return the table without sums and types, which `det trial describe --metrics-summary` shows."""
    shown = [position for position, column in enumerate(COLUMNS) if column.name not in ("sum", "type")]
    rows = summary_rows(summarize(reports))
    if not rows:
        return " none"
    return table([COLUMNS[position] for position in shown], [[row[position] for position in shown] for row in rows])
