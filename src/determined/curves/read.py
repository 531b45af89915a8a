"""Read the reports of a trial as columns: for each metric, the steps, times and values at which it was reported."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from determined.config.flattening import flat
from determined.config.metric_values import number
from determined.curves import exact_json
from determined.curves.levels import Floats, Integers
from determined.curves.summary import Statistics, statistics_of
from determined.errors import StoreError
from determined.store.substores.report_texts import ReportTexts

Key = tuple[str, str]  # group and name of a metric


class DamagedReports(StoreError):
    """Reports of a trial cannot be decoded."""


@dataclass(frozen=True)
class Column:
    """The reported values of one metric by step; of several ranks, the values of the lowest."""

    steps: Integers
    times: Floats  # NaN if they were not read
    reported: list[Any]
    values: Floats  # the reported numbers; NaN for what is no number
    numeric: NDArray[np.bool_] | None  # which of them are numbers; None if all are
    floats: bool  # whether all are floats, as usual: then `values` are the same

    @property
    def statistics(self) -> Statistics | None:
        """The statistics of the reported values; None if there are none."""
        if not self.reported:
            return None
        if self.floats and math.isfinite(total := sum(self.reported)):  # then all values are finite
            # Adding zero makes a negative zero positive, whichever of the two zeros numpy has found.
            low, high = float(self.values.min()) + 0.0, float(self.values.max()) + 0.0
            return Statistics(len(self.reported), self.reported[-1], "number", total, low, high)
        return statistics_of(self.reported)

    def part(self, first_step: int | None = None, before: int | None = None) -> Column:
        """Return the reports from one step to another, which is not included."""
        low = 0 if first_step is None else int(np.searchsorted(self.steps, first_step))
        high = len(self.steps) if before is None else int(np.searchsorted(self.steps, before))
        chosen = slice(low, high)
        return Column(
            self.steps[chosen],
            self.times[chosen],
            self.reported[chosen],
            self.values[chosen],
            None if self.numeric is None else self.numeric[chosen],
            self.floats,
        )

    def numbers(self) -> Column:
        """Return the reports whose values are numbers."""
        if self.numeric is None:
            return self
        chosen = np.flatnonzero(self.numeric)
        reported = [self.reported[place] for place in chosen]
        return Column(self.steps[chosen], self.times[chosen], reported, self.values[chosen], None, self.floats)


def read_columns(pages: Iterable[ReportTexts], *, flatten: bool = False) -> dict[Key, Column]:
    """Return the column of each metric; groups are sorted, and names are in the order of their first report.

    With `flatten`, maps inside of reports are metrics of their own, with names joined by dots.
    """
    groups: dict[str, list[ReportTexts]] = {}
    for page in pages:
        groups.setdefault(page.group, []).append(page)
    return {
        (group, _encodable(name)): column
        for group in sorted(groups)
        for name, column in _of_group(groups[group], flatten=flatten).items()
    }


def _of_group(pages: Sequence[ReportTexts], *, flatten: bool) -> dict[str, Column]:
    """Return the columns of the metrics of one group.

    The reports are decoded quickly, and a second time exactly if integers may have been rounded. With `flatten`, maps
    inside of reports are metrics of their own.
    """
    columns = _columns([_parsed(page, exact_json.loads_rounded, flatten=flatten) for page in pages])
    # Values are looked at first: to search the texts takes as long as to decode them.
    if any(map(_may_be_rounded, columns.values())) and any(exact_json.has_long_integer(page.bodies) for page in pages):
        columns = _columns([_parsed(page, exact_json.loads, flatten=flatten) for page in pages])
    return columns


def _may_be_rounded(column: Column) -> bool:
    """Return whether a column may contain an integer of more than 64 bits, which decoding may have rounded."""
    if column.numeric is not None and not {list, dict}.isdisjoint(map(type, column.reported)):
        return True
    return bool(np.any(np.abs(column.values) >= 2.0**63))


@dataclass(frozen=True)
class _Page:
    """Reports of one group, in the order of steps and ranks."""

    steps: Integers
    ranks: Integers
    times: Floats
    bodies: list[dict[str, Any]]


def _parsed(page: ReportTexts, loads: Callable[[str], Any], *, flatten: bool) -> _Page:
    """Decode the texts of a page, its JSON with `loads`, and sort its reports if the database has not."""
    steps = np.fromstring(page.steps, dtype=np.int64, sep=",")
    count = len(steps)
    ranks = np.zeros(count, np.int64) if page.ranks is None else np.fromstring(page.ranks, dtype=np.int64, sep=",")
    times = np.full(count, np.nan) if page.times is None else np.fromstring(page.times, dtype=np.float64, sep=",")
    try:
        bodies: list[dict[str, Any]] = loads(page.bodies)
    except ValueError as error:
        raise DamagedReports(f"its reports in the store are damaged: {error}") from error
    if len(bodies) != count:
        raise _no_maps()
    if flatten:
        _check_maps(bodies)
        bodies = [flat(body) for body in bodies]
    order = np.lexsort((ranks, steps))
    if np.any(order[1:] < order[:-1]):
        steps, ranks, times, bodies = steps[order], ranks[order], times[order], [bodies[place] for place in order]
    return _Page(steps, ranks, times, bodies)


def _columns(pages: Sequence[_Page]) -> dict[str, Column]:
    """Return the columns of the decoded reports of one group."""
    steps, times = np.concatenate([page.steps for page in pages]), np.concatenate([page.times for page in pages])
    bodies = pages[0].bodies if len(pages) == 1 else list(chain.from_iterable(page.bodies for page in pages))
    # Usually every report has the same metrics, and only one rank reports: then a column is one list. That each report
    # has the metrics of the first and none has more is seen while they are read; what is no map raises TypeError.
    if type(bodies[0]) is dict and not any(page.ranks.any() for page in pages):
        names = list(bodies[0])
        with contextlib.suppress(KeyError, TypeError):
            columns = [list(map(itemgetter(name), bodies)) for name in names]
            if sum(map(len, bodies)) == len(names) * len(bodies):
                return {name: _column(steps, times, column) for name, column in zip(names, columns, strict=True)}
    _check_maps(bodies)
    places: dict[str, list[int]] = {}
    last_step: dict[str, int] = {}
    for place, (step, body) in enumerate(zip(steps.tolist(), bodies, strict=True)):
        for name in body:
            if last_step.get(name) != step:  # reports of one step come in the order of ranks; the first counts
                last_step[name] = step
                places.setdefault(name, []).append(place)
    return {
        name: _column(steps[chosen], times[chosen], [bodies[place][name] for place in chosen])
        for name, chosen in places.items()
    }


def _check_maps(bodies: list[Any]) -> None:
    """Raise DamagedReports if a decoded report is no map."""
    if set(map(type, bodies)) != {dict}:
        raise _no_maps()


def _no_maps() -> DamagedReports:
    """Return the error for reports that are no maps."""
    return DamagedReports("its reports in the store are damaged: some are no maps of metrics")


def _encodable(name: str) -> str:
    """Return the name of a metric as browsers send it: half of a surrogate pair, which JSON can have, is replaced."""
    return name if name.isascii() else re.sub("[\ud800-\udfff]", "\ufffd", name)


def _column(steps: Integers, times: Floats, reported: list[Any]) -> Column:
    """Return the column of the values that were reported for one metric."""
    if (kinds := set(map(type, reported))) <= {int, float}:
        with contextlib.suppress(OverflowError):  # an integer beyond the range of a float
            return Column(steps, times, reported, np.array(reported, dtype=np.float64), None, kinds == {float})
    numbers = [number(value) for value in reported]
    values = np.array([np.nan if value is None else value for value in numbers], dtype=np.float64)
    numeric = np.array([value is not None for value in numbers], dtype=np.bool_)
    return Column(steps, times, reported, values, None if numeric.all() else numeric, False)
