"""Choose the columns of a table and their widths, so that no row wraps on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

NARROWEST = 12  # minimum width to which a column of long texts is cut


def fit(widths: Sequence[int], long: Sequence[bool], ranks: Sequence[int], terminal: int) -> dict[int, int]:
    """Return the indices of the columns to show, with their widths.

    Long columns are cut first. If that is not enough, columns are hidden: those with the highest rank first, from the
    right. Columns of rank 0 are always shown.
    """
    shown = list(range(len(widths)))
    while True:
        available = terminal - 3 * len(shown) + 1  # a space before and after each cell, and a bar between two
        fitted = _cut({column: widths[column] for column in shown}, long, available)
        hideable = [column for column in shown if ranks[column] > 0]
        if sum(fitted.values()) <= available or not hideable:
            return fitted
        shown.remove(max(hideable, key=lambda column: (ranks[column], column)))


def _cut(widths: dict[int, int], long: Sequence[bool], available: int) -> dict[int, int]:
    """Narrow the widest long column repeatedly until the row fits, or all are at their minimum."""
    cut = dict(widths)
    while sum(cut.values()) > available:
        candidates = [column for column, width in cut.items() if long[column] and width > NARROWEST]
        if not candidates:
            break
        cut[max(candidates, key=lambda column: cut[column])] -= 1
    return cut
