"""Draw curves as text of a given width."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from determined.cli.display.table import number
from determined.config.metric_values import is_finite

Curve = Sequence[tuple[float, float]]  # points (x, y), sorted by x; a value that is not finite is a gap
Paint = Callable[[str, int], str]  # returns a character in the colour of the curve with that index
Dot = tuple[int, int]  # column and row, from the upper left
Cells = dict[tuple[int, int], tuple[int, tuple[int, ...]]]  # by column and row: the dots, and the curves they belong to

# Less is readable on a linear axis; more would show only the largest values.
_DECADES_FOR_LOG = 3  # values that span more get a logarithmic axis
_NARROWEST, _LOWEST = 8, 2
_ACROSS, _DOWN = 2, 4  # dots of a braille character
_BRAILLE = 0x2800
_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # by column and row


@dataclass(frozen=True)
class Chart:
    """The lines of a chart, and whether its vertical axis is logarithmic."""

    lines: list[str]
    logarithmic: bool


def draw(curves: Sequence[Curve], *, width: int, height: int = 14, paint: Paint | None = None) -> Chart:
    """Draw all curves in one chart.

    Without `paint`, each cell shows the letter of its curve: A, B, C and so on.
    """
    finite = [point for curve in curves for point in curve if _is_finite(point)]
    if not finite:
        return Chart(["(no numbers to draw)"], False)
    ys = [y for _, y in finite]
    # Of the logarithms, since the quotient of very different floats could overflow.
    logarithmic = min(ys) > 0 and math.log10(max(ys)) - math.log10(min(ys)) > _DECADES_FOR_LOG
    rise: Callable[[float], float] = math.log10 if logarithmic else float
    low, high = number(min(ys)), number(max(ys))
    margin = max(len(low), len(high))
    columns, rows = max(_NARROWEST, width - margin - 2), max(_LOWEST, height)
    across = _Axis.over([x for x, _ in finite], columns * _ACROSS)
    up = _Axis.over([rise(y) for y in ys], rows * _DOWN)
    cells: Cells = {}
    for index, curve in enumerate(curves):
        before: Dot | None = None
        for point in curve:
            here = (across.dot(point[0]), up.dots - 1 - up.dot(rise(point[1]))) if _is_finite(point) else None
            # Several points can fall on one dot.
            if here is not None and here != before:
                _line(cells, before or here, here, index)
            before = here
    labels = {0: high, rows - 1: low} if up.low < up.high else {(up.dots - 1 - up.dot(up.low)) // _DOWN: low}
    lines = [
        f"{labels.get(row, ''):>{margin}} |{''.join(_character(cells.get((x, row)), x, paint) for x in range(columns))}"
        for row in range(rows)
    ]
    begin, end = number(across.low), number(across.high)
    under = begin.center(columns) if begin == end else begin + end.rjust(columns - len(begin))
    below = [f"{'':{margin}} +{'-' * columns}", f"{'':{margin}}  {under}"]
    # Trailing spaces would be copied with the chart.
    return Chart([line.rstrip() for line in [*lines, *below]], logarithmic)


@dataclass(frozen=True)
class _Axis:
    """The mapping of numbers to dots along one axis; a single value is in the middle."""

    low: float
    high: float
    dots: int

    @classmethod
    def over(cls, values: Sequence[float], dots: int) -> _Axis:
        """Return an axis from the smallest to the largest of the values."""
        return cls(min(values), max(values), dots)

    def dot(self, value: float) -> int:
        """Return the index of the dot for a value."""
        if self.high == self.low:
            return self.dots // 2
        # Halved first: the difference of the largest possible floats would overflow.
        share = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        # Rounding up at the end of the axis must not leave it.
        return min(self.dots - 1, round(share * (self.dots - 1)))


def _is_finite(point: tuple[float, float]) -> bool:
    return is_finite(point[0]) and is_finite(point[1])


def _line(cells: Cells, start: Dot, end: Dot, curve: int) -> None:
    """Set all dots from one to another, both included."""
    (x, y), (to_x, to_y) = start, end
    steps = max(abs(to_x - x), abs(to_y - y), 1)
    for step in range(steps + 1):
        column, row = x + round((to_x - x) * step / steps), y + round((to_y - y) * step / steps)
        cell = column // _ACROSS, row // _DOWN
        dots, curves = cells.get(cell, (0, ()))
        cells[cell] = dots | _BITS[column % _ACROSS][row % _DOWN], curves if curve in curves else (*curves, curve)


def _character(cell: tuple[int, tuple[int, ...]] | None, column: int, paint: Paint | None) -> str:
    """Return the character of a cell: the letter of a curve, or coloured dots with `paint`.

    Where curves overlap, columns alternate between them.
    """
    if cell is None:
        return " "
    dots, curves = cell
    curve = curves[column % len(curves)]
    return letter(curve) if paint is None else paint(chr(_BRAILLE + dots), curve)


def letter(curve: int) -> str:
    """Return the letter of a curve in the chart and in the legend."""
    return chr(ord("A") + curve % 26)
