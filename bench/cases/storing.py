"""Reports of several processes into one store: lost ones, the rate, and the time of a list of runs."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench.measure import Effort, in_child, in_children
from bench.table import Row

WRITERS = 4
RUNS = 1_000
LIMIT = 200_000.0  # microseconds


def storing(effort: Effort) -> list[Row]:
    """Run four programs that only report, as fast as they can."""
    each = effort.store_rows // WRITERS
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        place = str(Path(directory) / "store.sqlite")
        start = time.monotonic()
        in_children(
            "bench.cases.storing:report",
            [{"rows": each}] * WRITERS,
            environments=[{"DET_STORE": place}] * WRITERS,
        )
        seconds = time.monotonic() - start
        found = in_child("bench.cases.storing:count", {}, environment={"DET_STORE": place})
        listing = in_child("bench.cases.storing:list_runs", {}, environment={"DET_STORE": place})
    lost = sum(each - min(each, rows) for rows in found) + each * (WRITERS - len(found))
    return [
        Row(
            f"store: {WRITERS} writers, {WRITERS * each:,} reports",
            "determined",
            us=seconds * 1e6 / (WRITERS * each),
            must_be="0 lost",
            ok=lost == 0,
            note=f"{WRITERS * each / seconds:,.0f} a second, {lost} lost; time a report, start-up included",
            detail={"seconds": seconds, "rows": found},
        ),
        Row(
            f"list of {RUNS:,} runs",
            "determined",
            us=listing * 1e6,
            must_be=f"< {LIMIT / 1e6:.1f} s",
            ok=listing * 1e6 < LIMIT,
            note="in a store with all those reports",
        ),
    ]


def report(*, rows: int) -> None:
    """Write N reports of two metrics in one run."""
    from determined import core

    with core.init(tensorboard_mode=core.TensorboardMode.MANUAL) as context:
        for step in range(rows):
            context.train.report_training_metrics(step, {"loss": 1 / (step + 1), "accuracy": step / rows})


def count() -> list[int]:
    """Return the number of steps of each run."""
    from determined.store import open_store

    store = open_store()
    return [len(store.metrics(run.trial_id, "training")) for run in store.runs()]


def list_runs() -> float:
    """Return the seconds of the list in a store with that many runs."""
    from determined.store import open_store
    from determined.store.process import this_process
    from determined.store.rows import AttemptStart, NewRun

    store = open_store()
    for number in range(len(store.runs()), RUNS):
        run = NewRun("train.py", f"runs/{number}", {"lr": 0.1, "layers": [8, 8]}, {"name": str(number)}, time.time())
        store.begin_attempt(AttemptStart(f"run-{number}", run, this_process(), time.time()))
    start = time.monotonic()
    assert len(store.runs(limit=RUNS)) == RUNS
    return time.monotonic() - start
