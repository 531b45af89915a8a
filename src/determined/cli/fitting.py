"""Which columns of a table fit a terminal, and how wide they are: no row may wrap."""

from __future__ import annotations

from collections.abc import Sequence

NARROWEST = 12  # to which a column of long texts may be cut


def fit(widths: Sequence[int], long: Sequence[bool], ranks: Sequence[int], terminal: int) -> dict[int, int]:
    """Return the positions of the columns that are shown, each with its width.

    Long columns are cut first. If that is not enough, columns are hidden: those with the highest rank, from the right;
    columns of rank 0 are always shown.
    """
    shown = list(range(len(widths)))
    while True:
        available = terminal - 3 * len(shown) + 1  # a space before and behind each cell, and a bar between two
        fitted = _cut({column: widths[column] for column in shown}, long, available)
        hideable = [column for column in shown if ranks[column] > 0]
        if sum(fitted.values()) <= available or not hideable:
            return fitted
        shown.remove(max(hideable, key=lambda column: (ranks[column], column)))


def _cut(widths: dict[int, int], long: Sequence[bool], available: int) -> dict[int, int]:
    """Take from the widest of the long columns until the row fits, or nothing more can be taken."""
    cut = dict(widths)
    while sum(cut.values()) > available:
        candidates = [column for column, width in cut.items() if long[column] and width > NARROWEST]
        if not candidates:
            break
        cut[max(candidates, key=lambda column: cut[column])] -= 1
    return cut
