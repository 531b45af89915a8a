"""CPU time of searching a long log, and of describing a trial with many reports."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from bench.cases.commanding import command_seconds
from bench.measure import Effort, in_child
from bench.table import Row

LINES, REPORTS = 1_000_000, 100_000
# Searching once took 5 s and describing 2.6 s, on the machine on which the library was measured first: a third of that.
LIMITS = {"logs": 5.0 / 3, "describe": 2.6 / 3}
_NEEDLE = "loss is not finite"


def reading(effort: Effort) -> list[Row]:
    """Measure complete processes, in a store with one trial."""
    lines, reports = min(LINES, effort.store_rows), min(REPORTS, effort.store_rows // 10)
    cases = [
        (f"det trial logs --search, {lines:,} lines", "logs", ["trial", "logs", "1", "--search", _NEEDLE]),
        (f"det trial describe --metrics, {reports:,} reports", "describe", ["trial", "describe", "1", "--metrics"]),
        (f"det experiment describe --metrics, {reports:,} reports", "describe", ["e", "describe", "1", "--metrics"]),
    ]
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        place = str(Path(directory) / "store.sqlite")
        in_child("bench.cases.reading:fill", {"lines": lines, "reports": reports}, environment={"DET_STORE": place})
        return [_row(case, LIMITS[limit], effort, place, arguments) for case, limit, arguments in cases]


def _row(case: str, limit: float, effort: Effort, place: str, arguments: list[str]) -> Row:
    used = [command_seconds(arguments, place)[1] for _ in range(effort.starts)]
    median = statistics.median(used)
    return Row(
        case,
        "determined",
        us=median * 1e6,
        must_be=f"<= {limit:.2f} s",
        ok=median <= limit,
        note="CPU time of the whole process",
        detail={"cpu_seconds": used},
    )


def fill(*, lines: int, reports: int) -> None:
    """Fill a store with one trial that wrote these lines, and reported at half as many steps in two groups."""
    from determined.store.open import open_store
    from determined.store.process import this_process
    from determined.store.rows import (
        AttemptStart,
        LogRow,
        MetricRow,
        NewRun,
    )
    from determined.store.rows import Row as StoreRow

    store = open_store()
    begun = store.begin_attempt(AttemptStart("bench", NewRun("train.py", "/run", {}, {}, 1e9), this_process(), 1e9))
    rows: list[StoreRow] = []
    for step in range(1, reports // 2 + 1):
        for number, group in enumerate(("training", "validation")):
            body = f'{{"loss": {1 / step}, "accuracy": {1 - 1 / step}}}'
            rows.append(MetricRow(begun.trial_id, 1, 2 * step + number, group, step, body, 1e9 + step))
    for number in range(lines):
        text = f"INFO: [{number}] epoch {number // 1000}, batch {number % 1000}: loss {1 / (number + 1):.6f}"
        text = f"WARNING: [{number}] {_NEEDLE}" if number % 10_000 == 0 else text
        rows.append(LogRow(begun.trial_id, 1, 0, number, "stdout", text, 1e9 + number / 100, "INFO"))
    for start in range(0, len(rows), 10_000):
        store.write(rows[start : start + 10_000])
    store.close()
