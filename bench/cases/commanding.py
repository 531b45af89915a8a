"""Wall-clock time of `det` commands, from start to exit."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.cases.listing import EXPERIMENTS, TRIALS
from bench.measure import ChildError, Effort, child_environment, in_child
from bench.table import Row

MODELS, QUEUED, REPORTS = 100, 50, 1_000
HELP_LIMIT, LIMIT = 0.15, 0.5  # seconds
# In the store's first experiment, whose first trial has reported often.
LISTINGS = [
    ["experiment", "list"],
    ["experiment", "list", "--limit", "1000"],
    ["experiment", "list-trials", "1"],
    ["experiment", "list-checkpoints", "1"],
    ["experiment", "describe", "1"],
    ["experiment", "describe", "1", "--metrics"],
    ["trial", "describe", "1"],
    ["model", "list"],
    ["model", "list-versions", "model 0"],
    ["queue", "list"],
    ["store", "info"],
]


def commanding(effort: Effort) -> list[Row]:
    """Measure `det --help`, and every list, in a store with many experiments."""
    experiments = min(EXPERIMENTS, effort.store_rows // 100)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        place = str(Path(directory) / "store.sqlite")
        for step in ("bench.cases.listing:fill", "bench.cases.commanding:fill_the_rest"):
            in_child(step, {"experiments": experiments}, environment={"DET_STORE": place})
        return [
            _row("det --help", HELP_LIMIT, effort, place, ["--help"]),
            *(
                _row(f"det {' '.join(words)}, {experiments:,} x {TRIALS}", LIMIT, effort, place, words)
                for words in LISTINGS
            ),
        ]


def fill_the_rest(*, experiments: int) -> None:
    """Add a trial with many reports, models with a version each, and queued experiments."""
    from determined.store import open_store
    from determined.store.process import this_process, this_user
    from determined.store.rows import MetricRow
    from determined.store.substores.queue import NewEntry

    store = open_store()
    reports = [
        MetricRow(1, 1, 10 + step, group, step, f'{{"error": {1 / step}, "epochs": {step}}}', time.time())
        for step in range(3, REPORTS + 3)
        for group in ("training", "validation")
    ]
    store.write(reports)
    for number in range(MODELS):
        model = store.registry.create_model(f"model {number}")
        store.registry.register(model.id, str(1 + 10 * (number % (10 * experiments))))
    for experiment_id in range(1, min(QUEUED, experiments) + 1):
        store.queue.add(NewEntry(experiment_id, this_process().host, this_user()))
    store.close()


def _row(case: str, limit: float, effort: Effort, place: str, arguments: list[str]) -> Row:
    times = [command_seconds(arguments, place) for _ in range(effort.starts + 1)][1:]  # the first one warms the caches
    median = statistics.median(wall for wall, _ in times)
    cpu = statistics.median(cpu for _, cpu in times)
    return Row(
        case,
        "determined",
        us=median * 1e6,
        must_be=f"<= {limit:.2f} s",
        ok=median <= limit,
        note=f"the whole process, in wall-clock time; its CPU time is {cpu * 1e3:.0f} ms",
        detail={"seconds": [wall for wall, _ in times], "cpu_seconds": [cpu for _, cpu in times]},
    )


def command_seconds(arguments: list[str], place: str) -> tuple[float, float]:
    """Run `det` with these arguments; return the seconds of wall-clock time, and of CPU time."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        command = [sys.executable, "-c", "from determined.cli.main import main; main()", *arguments]
        environment = {**child_environment(Path(directory)), "DET_STORE": place}
        start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True)
        seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise ChildError(done.stderr[-2000:])
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
