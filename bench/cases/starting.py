"""Start-up: CPU time of the import, and of everything up to the first trained batch."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.installed import PEERS, installed
from bench.measure import ChildError, Effort, Pairs, child_environment, in_child, summarize
from bench.table import Row, at_most, not_installed

IMPORTS = {"lightning": "Lightning", "accelerate": "Accelerate", "ignite.engine": "Ignite"}
NOTE = "the whole process"


def importing(effort: Effort) -> list[Row]:
    """Measure `import determined.pytorch` compared with `import torch`."""
    case = "import"
    rows = []
    for module, who in {"determined.pytorch": "determined", **IMPORTS}.items():
        if who in PEERS and not installed(who):
            rows.append(not_installed(case, who))
            continue
        result = summarize(_pairs(["-c", f"import {module}"], ["-c", "import torch"], effort.starts))
        if who == "determined":
            rows.append(Row(case, "import torch", us=result.bare_us, ratio=1.0, note=NOTE))
        row = Row.of_summary(case, who, result, NOTE)
        rows.append(at_most(row, 1.05) if who == "determined" else row)
    return rows


def first_batch(effort: Effort) -> list[Row]:
    """Measure a process from its start to the end of its first batch."""
    case = "to the first trained batch"
    own, bare = Pairs([], []), []
    rng = random.Random(0)
    for number in range(effort.starts + 1):
        order = ["determined", "bare"] if rng.random() < 0.5 else ["bare", "determined"]
        times = {who: in_child("bench.first_batch:main", {"who": who}) for who in order}
        if number:  # the first pair warms the caches of the file system
            own.own.append(times["determined"])
            bare.append(times["bare"])
    result = summarize(Pairs(own.own, bare))
    return [
        Row(case, "bare script", us=result.bare_us, ratio=1.0, note=NOTE),
        at_most(Row.of_summary(case, "determined", result, NOTE), 1.05),
    ]


def _pairs(own: list[str], bare: list[str], count: int) -> Pairs:
    rng, result = random.Random(0), Pairs([], [])
    for number in range(count + 1):
        own_first = rng.random() < 0.5
        first = _cpu_seconds(own if own_first else bare)
        second = _cpu_seconds(bare if own_first else own)
        if number:
            result.own.append(first if own_first else second)
            result.bare.append(second if own_first else first)
    return result


def _cpu_seconds(arguments: list[str]) -> float:
    """Return the user and system time of a Python process with these arguments."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, *arguments],
            env=child_environment(Path(directory)),
            cwd=directory,
            capture_output=True,
            text=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise ChildError(done.stderr[-2000:])
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
