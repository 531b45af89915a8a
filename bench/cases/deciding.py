"""One decision of a searcher with ten thousand trials, including writing to and reading from the journal."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Mapping
from typing import Any

from bench.measure import Effort, in_child
from bench.table import Row

LIMIT = 1000.0  # microseconds
METHODS: dict[str, dict[str, Any]] = {
    "async_halving": {"name": "async_halving", "num_rungs": 5},
    "adaptive_asha": {"name": "adaptive_asha"},
    "adaptive_asha, stop_once: false": {"name": "adaptive_asha", "stop_once": False},
}


def deciding(effort: Effort) -> list[Row]:
    """Run a search in virtual time; measure the decisions after nine tenths of the N reports."""
    rows = []
    for name, fields in METHODS.items():
        times = in_child("bench.cases.deciding:decide", {"fields": fields, "trials": effort.search_trials})
        median, worst = statistics.median(times), max(times)
        promises = fields.get("stop_once", True)
        rows.append(
            Row(
                f"one decision, {effort.search_trials:,} trials",
                name,
                us=median,
                must_be=f"<= {LIMIT / 1000:.0f} ms" if promises else "",
                ok=worst <= LIMIT if promises else None,
                note=f"the worst of {len(times):,}: {worst:,.0f} us"
                + ("" if promises else "; it ends all trials that wait at a rung"),
                detail={"median": median, "worst": worst},
            )
        )
    return rows


def decide(*, fields: Mapping[str, Any], trials: int) -> list[float]:
    """Return the microseconds of CPU time of each decision: check the order, report, encode both as JSON."""
    from determined.searchers.base import Action, Event, Validated
    from determined.searchers.build import build
    from determined.searchers.journal import action_to_plain, event_from_plain, event_to_plain
    from determined.searchers.methods.adaptive_asha import AdaptiveAsha
    from determined.searchers.methods.async_halving import AsyncHalving
    from determined.searchers.simulate import Behaviour, simulate

    kind: Any = {"async_halving": AsyncHalving, "adaptive_asha": AdaptiveAsha}[fields["name"]]
    config = kind(metric="loss", max_trials=trials, max_time=1000, time_metric="batches", **fields)
    searcher = build(config, {"lr": {"type": "double", "minval": 0, "maxval": 1}, "layers": 3}, 0)
    tell, times, events = searcher.on_event, list[float](), 0

    def timed(event: Event) -> list[Action]:
        nonlocal events
        events += isinstance(event, Validated)
        start = time.process_time_ns()
        if isinstance(event, Validated):
            searcher.waits_for(event.number)
        actions = tell(event_from_plain(event_to_plain(event)))
        for action in actions:
            action_to_plain(action)
        spent = time.process_time_ns() - start
        if events > trials * 0.9:
            times.append(spent / 1000)
        return actions

    searcher.on_event = timed  # type: ignore[method-assign]
    gc.freeze()
    gc.disable()
    simulate(searcher, lambda create: Behaviour(lambda time: create.hparams["lr"]), slots=16)
    return times
