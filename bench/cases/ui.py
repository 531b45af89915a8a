"""The server of `det ui`: CPU time until it answers, of 100 curves and of a table of 10,000 trials; and its memory.

A store with 1,000 trials of 10,000 reports of 2 metrics, and 9,000 trials without reports. The CPU time is that of the
server's process, which is a real one; requests go through its guard.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from bench.measure import REPOSITORY, Effort, in_child
from bench.table import Row

TRIALS, REPORTS, MORE_TRIALS, CURVES = 1_000, 10_000, 9_000, 100
LIMITS = {"answer": 0.8, "again": 0.02, "rows": 0.5, "poll": 0.001, "megabytes": 200.0}
_POLLS, _REPETITIONS = 500, 10  # the system counts CPU time in steps of 10 ms

_PROGRAM = """
import sys
from pathlib import Path
from determined.web.serve import serve
serve(static=Path(sys.argv[1]), open_browser=False, announce=lambda s: print(s.url, s.token_file, flush=True))
"""


def ui(effort: Effort) -> list[Row]:
    """Ask a server what its pages ask."""
    trials = max(20, min(TRIALS, effort.store_rows // 1000))
    more = min(MORE_TRIALS, 9 * trials)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        home = Path(directory)
        environment = {
            "DET_DATA_DIR": str(home / "data"),
            "XDG_STATE_HOME": str(home / "state"),
            "DET_STORE": str(home / "store.sqlite"),
        }
        in_child("bench.cases.ui:fill", {"trials": trials, "more": more}, environment=environment)
        (home / "static").mkdir()
        (home / "static" / "index.html").write_text("<!doctype html>")
        with _Server(home / "static", environment) as server:
            found = server.measure(trials)
    return _rows(found, trials, more)


def _rows(found: dict[str, float], trials: int, more: int) -> list[Row]:
    size = f"{trials:,} trials x {REPORTS:,} reports"
    curves = min(CURVES, trials)

    def row(case: str, name: str, limit: str | None = None, note: str = "CPU time of the server") -> Row:
        highest = None if limit is None else LIMITS[limit]
        must_be = "" if highest is None else f"<= {highest * 1000:g} ms"
        ok = None if highest is None else found[name] <= highest
        return Row(case, "determined", us=found[name] * 1e6, must_be=must_be, ok=ok, note=note, detail=found)

    return [
        row("det ui, from its start to its first answer", "answer", "answer", "CPU time of the process"),
        row(f"{curves} curves, the first time ({size})", "first", note=f"{found['bytes'] / 1e6:.1f} MB are sent"),
        row(f"{curves} curves again", "again", "again"),
        row(f"a table of {trials + more:,} trials", "rows", "rows", f"{found['row_bytes'] / 1e6:.1f} MB are sent"),
        row("whether an unchanged store has changed", "poll", "poll"),
        Row(
            "memory of the server after all of this",
            "determined",
            must_be=f"<= {LIMITS['megabytes']:g} MB",
            ok=found["megabytes"] <= LIMITS["megabytes"],
            note=f"{found['megabytes']:.0f} MB resident",
        ),
    ]


class _Server:
    """A server in a process of its own."""

    def __init__(self, static: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(static)],
            env={**os.environ, **environment, "PYTHONPATH": str(REPOSITORY / "src")},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        url, token = self._process.stdout.readline().split()
        self._headers = {"Authorization": f"Bearer {Path(token).read_text().strip()}"}
        self._line = http.client.HTTPConnection(urlsplit(url).netloc)
        self._seen = psutil.Process(self._process.pid)

    def __enter__(self) -> _Server:
        return self

    def __exit__(self, *error: object) -> None:
        self._line.close()
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def measure(self, trials: int) -> dict[str, float]:
        """Return seconds of CPU time, bytes and megabytes."""
        version = json.loads(self._get("api/changes"))["version"]
        answer = self._cpu()
        wanted = ",".join(str(number) for number in range(1, min(CURVES, trials) + 1))
        path = f"api/curves?trials={wanted}&key=training%2Floss"
        first, sent = self._ask(path)
        assert json.loads(sent)["curves"][0]["points"] == REPORTS
        again = self._repeated(path, _REPETITIONS)
        table = self._get("api/trials")
        rows = self._repeated("api/trials", _REPETITIONS)
        poll = self._repeated(f"api/changes?seen={version}", _POLLS)
        for other in ("api/experiments", "api/metrics", "api/trials/1", "api/experiments/1", "api/logs?trial=1"):
            self._get(other)
        self._get("api/trials?metric=training%2Floss")
        return {
            "answer": answer,
            "first": first,
            "again": again,
            "rows": rows,
            "poll": poll,
            "bytes": float(len(sent)),
            "row_bytes": float(len(table)),
            "megabytes": self._seen.memory_info().rss / 2**20,
        }

    def _repeated(self, path: str, times: int) -> float:
        """Return the CPU time of one of several equal requests."""
        before = self._cpu()
        for _ in range(times):
            self._get(path)
        return (self._cpu() - before) / times

    def _ask(self, path: str) -> tuple[float, bytes]:
        before = self._cpu()
        content = self._get(path)
        return self._cpu() - before, content

    def _get(self, path: str) -> bytes:
        # On one connection, as a browser does.
        self._line.request("GET", f"/{path}", headers=self._headers)
        answer = self._line.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        return content

    def _cpu(self) -> float:
        times: Any = self._seen.cpu_times()
        return float(times.user + times.system)


def fill(*, trials: int, more: int) -> None:
    """Write the rows of finished trials at once: through the library it would take an hour."""
    from bench.cases.listing import new_experiment, new_trial
    from determined.store.experiment_changes import Change, ExperimentChange, TrialChange
    from determined.store.open import opened_database
    from determined.store.process import this_process
    from determined.store.rows import AttemptStart, NewRun
    from determined.store.store import Store

    with opened_database() as database:
        store = Store(database)
        lease = store.experiments.acquire(store.experiments.create(new_experiment(0)), this_process())
        ids = store.experiments.commit(lease, Change(new_trials=tuple(map(new_trial, range(trials + more)))))
        changes = tuple(TrialChange(number, "RUNNING", allocation=f"{number}.1", runs=1) for number in ids[:trials])
        store.experiments.commit(lease, Change(trials=changes))
        chance = random.Random(1)
        for number in ids[:trials]:
            run = NewRun("", "/run", {}, {}, 1e9)
            key = f"{number}.1"
            store.begin_attempt(AttemptStart(key, run, this_process(), 1e9, allocation=(number, key)))
            with database.transaction():
                database.insert(
                    "metrics (trial_id, metric_group, step, attempt, sequence, archived, body, reported)",
                    [(number, "training", step, 1, step, 0, _body(step, chance), 1e9 + step) for step in _steps()],
                    "DO NOTHING",
                )
                database.execute("UPDATE trials SET steps_completed = ?, changes = 1 WHERE id = ?", [REPORTS, number])
        ends = tuple(TrialChange(number, state="COMPLETED", ended=time.time()) for number in ids)
        ended = ExperimentChange(state="COMPLETED", ended=time.time())
        store.experiments.commit(lease, Change(trials=ends, experiment=ended))
        store.experiments.release(lease)


def _steps() -> range:
    return range(1, REPORTS + 1)


def _body(step: int, chance: random.Random) -> str:
    loss = math.exp(-step / 3000) + 0.05 * chance.random()
    return f'{{"loss": {loss}, "accuracy": {1 - loss / 2}}}'
