"""Read the reports of a trial as columns: for each metric, the steps, times and values at which it was reported."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from determined.config.metric_values import number
from determined.curves.levels import Floats, Integers
from determined.store.report_texts import ReportTexts

_orjson: Any
try:
    _orjson = importlib.import_module("orjson")
except ImportError:  # it comes with the extra `ui`
    _orjson = None

Key = tuple[str, str]  # group and name of a metric


@dataclass(frozen=True)
class Column:
    """The numbers that were reported for one metric, by step; of several ranks, those of the lowest.

    `others` are the values that are no numbers (texts, truth values, lists), with their steps. `integers` says that all
    numbers are integers, which are shown without a decimal point.
    """

    steps: Integers
    times: Floats
    values: Floats
    others: list[tuple[int, Any]] = field(default_factory=list)
    integers: bool = False

    def as_reported(self, value: float) -> float | int:
        """Return a value as an integer if the metric has only integers."""
        return int(value) if self.integers and math.isfinite(value) else value


def read_columns(pages: Iterator[ReportTexts]) -> dict[Key, Column]:
    """Return the column of each metric; groups are sorted, and names are in the order of their first report."""
    groups: dict[str, list[_Page]] = {}
    for page in pages:
        groups.setdefault(page.group, []).append(_parsed(page))
    return {(group, name): column for group in sorted(groups) for name, column in _columns(groups[group]).items()}


@dataclass(frozen=True)
class _Page:
    """Reports of one group, in the order of steps and ranks."""

    steps: Integers
    ranks: Integers
    times: Floats
    bodies: list[dict[str, Any]]
    # Names and a row of values for each report, if all reports have the same names and only numbers.
    matrix: tuple[tuple[str, ...], NDArray[Any]] | None


def _parsed(page: ReportTexts) -> _Page:
    """Decode the texts of a page, and sort its reports if the database has not."""
    steps = np.fromstring(page.steps, dtype=np.int64, sep=",")
    ranks = np.fromstring(page.ranks, dtype=np.int64, sep=",")
    times = np.fromstring(page.times, dtype=np.float64, sep=",")
    bodies = _loads(page.bodies)
    order = np.lexsort((ranks, steps))
    if np.any(order[1:] < order[:-1]):
        steps, ranks, times, bodies = steps[order], ranks[order], times[order], [bodies[place] for place in order]
    # Truth values would become numbers in an array. With the colon, a metric called "true_positives" is none.
    booleans = any(text in page.bodies for text in (": true", ":true", ": false", ":false"))
    matrix = None if booleans else _matrix(bodies)
    return _Page(steps, ranks, times, bodies, matrix)


def _loads(bodies: str) -> list[dict[str, Any]]:
    """Decode a JSON array. orjson needs a third of the time of `json`, but does not read NaN and infinities."""
    if _orjson is not None:
        with contextlib.suppress(_orjson.JSONDecodeError):
            return cast("list[dict[str, Any]]", _orjson.loads(bodies))
    return cast("list[dict[str, Any]]", json.loads(bodies))


def _matrix(bodies: list[dict[str, Any]]) -> tuple[tuple[str, ...], NDArray[Any]] | None:
    """Return the common names of the reports and an array of their values, or None if they are not all numbers."""
    names = tuple(bodies[0])
    if not names or any(tuple(body) != names for body in bodies):
        return None
    try:
        values = np.array([list(body.values()) for body in bodies])
    except (ValueError, OverflowError):  # a list, or an integer beyond the range of a float
        return None
    return (names, values) if values.ndim == 2 and values.dtype.kind in "if" else None


def _columns(pages: Sequence[_Page]) -> dict[str, Column]:
    """Return the columns of one group."""
    if all(page.matrix is not None and not page.ranks.any() for page in pages):
        matrices = [page.matrix for page in pages if page.matrix is not None]
        if all(names == matrices[0][0] for names, _ in matrices):
            steps, times = (
                np.concatenate([page.steps for page in pages]),
                np.concatenate([page.times for page in pages]),
            )
            values = np.concatenate([matrix for _, matrix in matrices]).astype(np.float64)
            # A matrix of floats can have columns of integers.
            first = pages[0].bodies[0]
            return {
                name: Column(
                    steps,
                    times,
                    np.ascontiguousarray(values[:, place]),
                    integers=isinstance(first[name], int)
                    and all(isinstance(body[name], int) for page in pages for body in page.bodies),
                )
                for place, name in enumerate(matrices[0][0])
            }
    collected: dict[str, _Collected] = {}
    for page in pages:
        for step, time, body in zip(page.steps.tolist(), page.times.tolist(), page.bodies, strict=True):
            for name, value in body.items():
                if name not in collected:
                    collected[name] = _Collected()
                collected[name].add(step, time, value)
    return {name: found.column() for name, found in collected.items()}


class _Collected:
    """The values of one metric, report by report. Reports of one step come in the order of ranks; the first counts."""

    def __init__(self) -> None:
        self._last_step = -1
        self._steps: list[int] = []
        self._times: list[float] = []
        self._values: list[float] = []
        self._others: list[tuple[int, Any]] = []
        self._integers = True

    def add(self, step: int, time: float, value: Any) -> None:
        if step == self._last_step:
            return
        self._last_step = step
        found = number(value)
        if found is None:
            self._others.append((step, value))
        else:
            self._steps.append(step)
            self._times.append(time)
            self._values.append(found)
            self._integers &= isinstance(value, int)

    def column(self) -> Column:
        return Column(
            np.array(self._steps, dtype=np.int64),
            np.array(self._times, dtype=np.float64),
            np.array(self._values, dtype=np.float64),
            self._others,
            self._integers,
        )
