"""Metrics as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from determined.config.flattening import flat
from determined.experimental.metrics import TrialMetrics, plain_cell
from determined.optional import require

_FIRST_COLUMNS = ("trial_id", "steps_completed", "group", "end_time", "rank")


def metrics_frame(rows: Iterable[TrialMetrics], hparams: dict[int, dict[str, Any]]) -> Any:
    """Return a DataFrame with one row per report: trial, step, group, time, rank, hyperparameters and metrics.

    A metric with the name of another column becomes `metrics.<name>`.
    """
    pandas = require("pandas", extra="pandas", purpose="a table of metrics")
    cells = [
        {
            "trial_id": row.trial_id,
            "steps_completed": row.steps_completed,
            "group": row.group,
            "end_time": row.end_time,
            "rank": row.rank,
            **{f"hparams.{name}": plain_cell(value) for name, value in flat(hparams[row.trial_id]).items()},
            **{_column(name): plain_cell(value) for name, value in row.metrics.items()},
        }
        for row in rows
    ]
    # Without rows pandas would have no columns either, and code that selects one would fail.
    return pandas.DataFrame(cells) if cells else pandas.DataFrame(columns=list(_FIRST_COLUMNS))


def _column(metric: str) -> str:
    return f"metrics.{metric}" if metric in _FIRST_COLUMNS or metric.startswith("hparams.") else metric
