"""Draw the curves of a comparison: in colours on a terminal, with letters elsewhere."""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Sequence

import click

from determined.cli.display.safe_text import visible
from determined.cli.experiment.comparison.chart import draw, letter
from determined.cli.experiment.comparison.entries import ComparisonEntry
from determined.curves import thin
from determined.curves.thin import Drawing, DrawnCurve, Points

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
    # With more curves than colours all get letters, so that no two look alike.
    paint = _coloured if len(found) <= len(_COLOURS) and _has_colours() else None
    # Of many points the extremes are drawn: more than a terminal can show, and a spike is among them.
    histories = [one.measured for one in found if one.measured is not None]
    drawing = thin.draw([Points(each.column.steps.astype(float), each.column.values) for each in histories])
    legend = []
    for index, (one, drawn) in enumerate(zip(found, drawing.curves, strict=True)):
        odd = sum(mark.count for mark in drawn.marks)
        remark = f" ({odd} of {drawn.points} values cannot be drawn)" if odd else ""
        name = f"{letter(index)} {one.title}"
        legend.append((name if paint is None else paint(name, index)) + remark)
    width = min(_WIDEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else _WIDTH_OF_A_FILE
    chart = draw([_points(drawing, drawn) for drawn in drawing.curves], width=width, paint=paint)
    scale = ", logarithmic" if chart.logarithmic else ""
    return "\n".join([visible(f"{title}{scale}"), *chart.lines, "  ".join(legend)])


def _points(drawing: Drawing, drawn: DrawnCurve) -> list[tuple[float, float]]:
    """Return a curve as points, with a gap where all values are not finite."""
    points: list[tuple[float, float]] = []
    for x, low, high in zip(drawing.x.tolist(), drawn.low.tolist(), drawn.high.tolist(), strict=True):
        if not math.isnan(low):
            points += [(x, low)] if low == high else [(x, low), (x, high)]
    places = {x for x, _ in points}
    gaps = {mark.x for mark in drawn.marks} - places
    return sorted([*points, *((x, math.nan) for x in gaps)], key=lambda point: point[0])


def _coloured(text: str, curve: int) -> str:
    return click.style(text, fg=_COLOURS[curve])


def _has_colours() -> bool:
    """Return whether standard output is a terminal with colours and UTF-8; NO_COLOR is respected (no-color.org)."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    # Braille characters need it.
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
