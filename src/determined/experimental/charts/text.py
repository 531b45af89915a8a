"""A comparison as text, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from determined.experimental.charts.data import ChartData, short_value
from determined.sentences import counted

if TYPE_CHECKING:
    from determined.store.experiment_records import Trial

_MOST_ROWS = 100
_MOST_SETTINGS = 6
_WIDEST = 32


def comparison_text(data: ChartData) -> str:
    """Return trials as a table with the statistics of the metric, followed by notes."""
    return "\n".join([*_lines(data), *map(_visible, data.notes)])


def _lines(data: ChartData) -> list[str]:
    """Return the table as lines."""
    by = "no numbers reported yet" if data.metric is None else f"{_visible(data.metric)} over {data.axis}"
    settings = list(dict.fromkeys(name for row in data.trials for name in data.settings[row.id]))[:_MOST_SETTINGS]
    heads = ["trial", "experiment", "state", "points", "last", "min", "max", *settings]
    rows = [heads, *(_cells(data, row, settings) for row in data.trials[:_MOST_ROWS])]
    shown = [[_cell(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in shown]
    more = [f"and {len(data.trials) - _MOST_ROWS:,} more"] if len(data.trials) > _MOST_ROWS else []
    return [f"{counted(len(data.trials), 'trial')}: {by}", *lines, *more]


def _cells(data: ChartData, row: Trial, settings: Sequence[str]) -> list[str]:
    found = data.statistics.get(row.id)
    values = (
        ["0", "", "", ""] if found is None else [str(found.points), *map(_number, (found.last, found.low, found.high))]
    )
    experiment = f"{row.experiment_id} {data.experiments[row.experiment_id].name}".rstrip()
    own = data.settings[row.id]
    return [str(row.id), experiment, row.state, *values, *(short_value(own.get(name, "")) for name in settings)]


def _number(value: Any) -> str:
    return "" if value is None else short_value(value)


def _visible(text: str) -> str:
    """Return a text whose control characters, which could rewrite the terminal, are escaped."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _cell(text: str) -> str:
    """Return a text for a column."""
    text = _visible(text)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"
