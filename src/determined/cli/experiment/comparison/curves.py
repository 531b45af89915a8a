"""Draw the curves of a comparison: in colours on a terminal, with letters elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

import click

from determined.cli.display.safe_text import visible
from determined.cli.experiment.comparison.chart import draw, letter
from determined.cli.experiment.comparison.entries import ComparisonEntry

# Six colours that terminals have and that people can tell apart; more curves get letters.
_COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "red")
_WIDTH_OF_A_FILE = 80
_WIDEST = 140  # wider charts show no more detail


def charts(found: Sequence[ComparisonEntry]) -> list[str]:
    """Return one chart for each metric and direction."""
    kinds = dict.fromkeys(one.measured.described for one in found if one.measured is not None)
    return [_chart(kind, [one for one in found if one.measured and one.measured.described == kind]) for kind in kinds]


def _chart(title: str, found: Sequence[ComparisonEntry]) -> str:
    """Return a chart of one metric with its legend."""
    from determined.config.metric_values import finite_number

    # With more curves than colours all get letters, so that no two look alike.
    paint = _coloured if len(found) <= len(_COLOURS) and _has_colours() else None
    curves: list[list[tuple[float, float]]] = []
    legend = []
    for index, one in enumerate(found):
        assert one.measured is not None
        values = [(step, finite_number(value)) for step, value in one.measured.points]
        curves.append([(step, float("nan") if value is None else value) for step, value in values])
        odd = sum(value is None for _, value in values)
        remark = f" ({odd} of {len(values)} values cannot be drawn)" if odd else ""
        name = f"{letter(index)} {one.title}"
        legend.append((name if paint is None else paint(name, index)) + remark)
    width = min(_WIDEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else _WIDTH_OF_A_FILE
    chart = draw(curves, width=width, paint=paint)
    scale = ", logarithmic" if chart.logarithmic else ""
    return "\n".join([visible(f"{title}{scale}"), *chart.lines, "  ".join(legend)])


def _coloured(text: str, curve: int) -> str:
    return click.style(text, fg=_COLOURS[curve])


def _has_colours() -> bool:
    """Return whether standard output is a terminal with colours and UTF-8; NO_COLOR is respected (no-color.org)."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    # Braille characters need it.
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
