"""How long somebody waits for `det`: the whole process, by the clock on the wall."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.measure import ChildError, Effort, child_environment, in_child
from bench.table import Row

EXPERIMENTS = 1_000
TRIALS = 10


def commanding(effort: Effort) -> list[Row]:
    """`det --help`, and `det experiment list` in a store with many experiments."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        place = str(Path(directory) / "store.sqlite")
        in_child("bench.cases.commanding:fill", {}, environment={"DET_STORE": place})
        return [
            _row("det --help", 0.15, effort, place, ["--help"]),
            _row(
                f"det experiment list, {EXPERIMENTS:,} experiments", 0.4, effort, place, ["e", "ls", "--limit", "1000"]
            ),
        ]


def fill() -> None:
    """Experiments with a few trials each."""
    from determined.store import open_store
    from determined.store.experiment_records import Change, NewExperiment, NewTrial
    from determined.store.process import this_process

    store = open_store()
    for number in range(EXPERIMENTS):
        experiment_id = store.experiments.create(
            NewExperiment(
                key=f"bench-{number}",
                name=f"experiment {number}",
                description="",
                labels=["bench"],
                config={"searcher": {"name": "random", "metric": "loss", "max_trials": TRIALS}},
                original="searcher: {name: random}",
                seed=number,
                code_dir="",
                owner="somebody",
                created=time.time(),
                paused=False,
                metric="loss",
                smaller_is_better=True,
            )
        )
        lease = store.experiments.acquire(experiment_id, this_process())
        trials = tuple(
            NewTrial(trial, f"request-{trial}", {"lr": trial / 100}, trial, None, [], 0, None, time.time())
            for trial in range(TRIALS)
        )
        store.experiments.commit(lease, Change(new_trials=trials))
        store.experiments.release(lease)
    store.close()


def _row(case: str, limit: float, effort: Effort, place: str, arguments: list[str]) -> Row:
    times = [_seconds(arguments, place) for _ in range(effort.starts + 1)][1:]  # the first one warms the caches
    median = statistics.median(wall for wall, _ in times)
    cpu = statistics.median(cpu for _, cpu in times)
    return Row(
        case,
        "determined",
        us=median * 1e6,
        must_be=f"<= {limit:.2f} s",
        ok=median <= limit,
        note=f"the whole process, by the clock on the wall; its CPU time is {cpu * 1e3:.0f} ms",
        detail={"seconds": [wall for wall, _ in times], "cpu_seconds": [cpu for _, cpu in times]},
    )


def _seconds(arguments: list[str], place: str) -> tuple[float, float]:
    """By the clock on the wall, and of CPU time."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        command = [sys.executable, "-c", "from determined.cli.main import main; main()", *arguments]
        environment = {**child_environment(Path(directory)), "DET_STORE": place}
        start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True)
        seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise ChildError(done.stderr[-2000:])
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
