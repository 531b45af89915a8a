"""Decode JSON columns of the store into data that browsers can represent."""

from __future__ import annotations

import json
from typing import Any

import orjson

from determined.config.metric_values import number
from determined.curves import exact_json, metric_keys
from determined.store.store import Store
from determined.web.answers import representable

# Configurations and programs cannot nest deeper. Only a store that another program has written has deeper data, on
# which recursive functions would fail.
_DEEPEST = 100
TOO_DEEP = f"(nested deeper than {_DEEPEST} levels)"


def loads(text: str) -> Any:
    """Decode stored JSON into data that every browser can represent."""
    if not exact_json.has_long_integer(text):
        try:
            return _cut(orjson.loads(text), text)
        except orjson.JSONDecodeError:  # it contains NaN or infinities, which JSON does not have
            pass
    return representable(_cut(json.loads(text), text))


def reported_metrics(store: Store, trial_id: int) -> dict[str, bool]:
    """Return the metrics in the first and newest reports of a trial, and whether a value there is a number or null."""
    found: dict[str, bool] = {}
    for group, body in store.overview.example_reports(trial_id):
        for name, value in exact_json.metrics_of(body).items():
            key = metric_keys.join(group, name)
            found[key] = found.get(key, False) or value is None or number(value) is not None
    return found


def shallow(data: Any) -> Any:
    """Return a copy of plain data in which parts that are nested too deeply are replaced by a text."""
    top = [data]
    level: list[Any] = [top]
    for depth in range(_DEEPEST + 1):
        below = []
        for block in level:
            for key, inner in list(block.items() if isinstance(block, dict) else enumerate(block)):
                if isinstance(inner, (dict, list)):
                    block[key] = TOO_DEEP if depth == _DEEPEST else inner.copy()
                    below.append(block[key])
        level = below if depth < _DEEPEST else []
    return top[0]


def _cut(data: Any, text: str) -> Any:
    """Return decoded data without parts that are nested too deeply; the number of brackets tells whether to look."""
    return shallow(data) if text.count("{") + text.count("[") > _DEEPEST else data
