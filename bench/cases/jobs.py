"""The cost of starting a process: a fork of the warm process compared with a fresh interpreter that imports torch."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.measure import Effort, in_child
from bench.table import Row

MOST_CPU = 0.010
JOBS_PER_START = 20


def starting(effort: Effort) -> list[Row]:
    """Measure from the call that starts a job to its first line; and all CPU time of a job that does nothing."""
    found = in_child("bench.cases.jobs:measure", {"jobs": JOBS_PER_START * effort.starts, "fresh": effort.starts})
    rows = []
    for who, note in (("warm", "a copy of the warm process"), ("fresh", "a fresh interpreter imports torch")):
        line = statistics.median(found[who]["line"])
        rows.append(Row("job to its first line", note, us=line * 1e6, note="wall time", detail=found[who]))
    cpu = found["warm"]["cpu"]
    rows.append(
        Row(
            "CPU of an empty job",
            "a copy of the warm process",
            us=cpu * 1e6,
            must_be=f"<= {MOST_CPU * 1000:g} ms",
            ok=cpu <= MOST_CPU,
            note="job, warm process and engine together",
        )
    )
    rows.append(
        Row("CPU of an empty job", "a fresh interpreter imports torch", us=found["fresh"]["cpu"] * 1e6, note="the same")
    )
    return rows


def measure(*, jobs: int, fresh: int) -> dict[str, Any]:
    from determined.engines.local import LocalEngine

    with tempfile.TemporaryDirectory() as place, LocalEngine(1) as engine:
        directory = Path(place)
        (directory / "line.py").write_text("import torch\nprint(flush=True)\n")
        (directory / "empty.py").write_text("import torch\n")
        _run(engine, directory, "line.py", {})  # it has imported everything now
        return {
            "warm": _measure(engine, directory, jobs, {}),
            # A variable that only takes effect in a fresh interpreter.
            "fresh": _measure(engine, directory, fresh, {"PYTHONHASHSEED": "1"}),
        }


def _measure(engine: Any, directory: Path, jobs: int, environment: dict[str, str]) -> dict[str, Any]:
    lines = [_run(engine, directory, "line.py", environment) for _ in range(jobs)]
    before = _cpu()
    for _ in range(jobs):
        _run(engine, directory, "empty.py", environment)
    return {"line": lines, "cpu": (_cpu() - before) / jobs}


def _run(engine: Any, directory: Path, script: str, environment: dict[str, str]) -> float:
    """Run a script to its end; return the seconds until its first event."""
    from determined.engines.base import Exited, Job
    from determined.engines.command import Script

    began = time.perf_counter()
    engine.start(Job("job", Script((script,)), environment, directory, 1))
    events = engine.events(60.0)
    first = time.perf_counter() - began
    while not any(isinstance(event, Exited) for event in events):
        events = engine.events(60.0)
    return first


def _cpu() -> float:
    """Return the CPU time of this process and of all that it started, including ended ones."""
    import psutil

    times = [psutil.Process().cpu_times(), *(child.cpu_times() for child in psutil.Process().children())]
    own = sum(t.user + t.system for t in times)
    return float(own + sum(t.children_user + t.children_system for t in times[1:]))
