"""Select the trials inside the brushes (ranges on axes) of an address, for an export without a browser.

`page/src/charts/axes.ts` does the same in the browser; `tests/web/test_export.py` compares the two.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args
from urllib.parse import unquote

from determined.config.metric_values import NotFinite, number

Row = dict[str, Any]
Place = Callable[[Row], float | None]
"""The place of a trial on an axis, from 0 to 1; None if it has no value that can be placed."""

_METRIC = "metric"
_NOT_FINITE = get_args(NotFinite)


def brushed(rows: Sequence[Row], brushes: str, searched: Sequence[Mapping[str, Any]]) -> set[int] | None:
    """Return the ids of the trials inside all brushes, such as `lr:0.2~0.5;opt:0~0.1`; None if there is no brush.

    Brushes are parts of the axes of a search space. Those on an axis that does not exist are ignored.
    """
    ranges = _ranges(brushes)
    if not ranges:
        return None
    space = {one["name"]: one for one in searched}
    axes = [(name, _hparam_axis(name, rows, space.get(name))) for name in _varying(rows) if name in ranges]
    if _METRIC in ranges:
        axes.append((_METRIC, _number_axis(rows, lambda row: _numeric(row["best"]))))
    if not axes:
        return None
    return {row["id"] for row in rows if all(_is_inside(axis(row), ranges[name]) for name, axis in axes)}


def _is_inside(place: float | None, limits: tuple[float, float]) -> bool:
    return place is not None and limits[0] <= place <= limits[1]


def _ranges(text: str) -> dict[str, tuple[float, float]]:
    """Return the brushes of an address by the name of their axis; invalid parts are ignored."""
    found: dict[str, tuple[float, float]] = {}
    for part in text.split(";"):
        encoded, _, limits = part.rpartition(":")
        try:
            name = "" if re.search("%(?![0-9A-Fa-f]{2})", encoded) else unquote(encoded, errors="strict")
            low, high = (float(limit or 0) for limit in limits.split("~")[:2])
        except ValueError:
            continue
        if name and low < high:
            found[name] = (low, high)
    return found


def _varying(rows: Sequence[Row]) -> list[str]:
    """Return the names of the hyperparameters in which trials differ, sorted."""
    values: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row["hparams"].items():
            values.setdefault(name, set()).add(_json(value))
    return sorted((name for name, found in values.items() if len(found) > 1), key=_browser_order)


def _hparam_axis(name: str, rows: Sequence[Row], searched: Mapping[str, Any] | None) -> Place:
    """Return the axis of a hyperparameter; its scale is that of the search space, or follows from the values."""
    values = [row["hparams"].get(name) for row in rows]
    numbers = [one for value in values if (one := _numeric(value)) is not None and math.isfinite(one)]
    is_choice = searched is not None and searched["kind"] == "categorical"
    if is_choice or not numbers or any(value is not None and _numeric(value) is None for value in values):
        return _name_axis(name, rows)
    log = searched["kind"] == "log" if searched else min(numbers) > 0 and max(numbers) / min(numbers) >= 100
    bounds = [float(searched[end]) for end in ("low", "high") if searched[end] is not None] if searched else []
    return _number_axis(rows, lambda row: _numeric(row["hparams"].get(name)), log=log, bounds=bounds)


def _number_axis(rows: Sequence[Row], value: Place, *, log: bool = False, bounds: Sequence[float] = ()) -> Place:
    """Return an axis of numbers from the smallest to the largest value, or to the bounds of the search space."""
    finite = [one for row in rows if (one := value(row)) is not None and math.isfinite(one)]
    low, high = min([*finite, *bounds], default=math.inf), max([*finite, *bounds], default=-math.inf)
    if not (high > low and high - low >= 1e-12 * max(abs(low), abs(high))):
        low, high = _widened(low, log=log)
    if log and low <= 0:
        low = min(high / 1e3, 1e-3)
    first, last = (math.log10(low), math.log10(high)) if log else (low, high)

    def place(row: Row) -> float | None:
        one = value(row)
        if one is None or not math.isfinite(one) or (log and one <= 0):
            return None
        return ((math.log10(one) if log else one) - first) / (last - first)

    return place


def _widened(value: float, *, log: bool) -> tuple[float, float]:
    """Return a range around a single value."""
    if not math.isfinite(value):
        return (0.1, 10.0) if log else (0.0, 1.0)
    if log and value > 0:
        return value / 2, value * 2
    by = abs(value) * 0.1 or 1.0
    return value - by, value + by


def _name_axis(name: str, rows: Sequence[Row]) -> Place:
    """Return an axis on which the values of a hyperparameter are evenly spaced names."""
    names = sorted({_text(row["hparams"].get(name)) for row in rows}, key=_browser_order)

    def place(row: Row) -> float | None:
        if name not in row["hparams"]:
            return None
        return 0.5 if len(names) == 1 else names.index(_text(row["hparams"][name])) / (len(names) - 1)

    return place


def _numeric(value: Any) -> float | None:
    """Return a value of an answer as a number, including NaN and infinities, which are text there; None for others."""
    return float(value) if value in _NOT_FINITE else number(value)


def _text(value: Any) -> str:
    """Return a value as the page shows it."""
    if value is None:
        return "\u2013"
    if isinstance(value, str):
        return value
    size = number(value)
    if size is None:
        return _json(value)
    if size.is_integer() and abs(size) < 1e15:
        return str(int(size))
    if 1e-3 <= abs(size) < 1e6:
        return _json(float(f"{size:.5g}"))
    mantissa, exponent = f"{size:.3e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def _json(value: Any) -> str:
    """Return a value as a browser writes it as JSON: whole floats as integers."""
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value, separators=(",", ":"), ensure_ascii=False)


def _browser_order(text: str) -> bytes:
    """Return the key by which browsers sort texts: UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")
