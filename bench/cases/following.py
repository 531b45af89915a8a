"""A search that is followed on the web page: the CPU time of the server, and how much slower the trials get.

One search of 16 trials runs, alternately with and without requests of its page, in turns of a few seconds. The page
polls every second and requests everything that it shows when something has changed, which is always the case.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.measure import Effort, in_child
from bench.table import Row
from bench.ui.server import DetUi

TRIALS = 16
MOST_OF_A_CORE, MOST_LOST = 0.03, 0.01
_TURN_SECONDS = 4
_OWN = "determined"


@dataclass(frozen=True)
class Turn:
    """Some seconds of the search: whether the page was open, steps a second, CPU time of the server."""

    with_requests: bool
    seconds: float
    rate: float
    cpu: float


def following(effort: Effort) -> list[Row]:
    """Compare the steps of the trials in adjacent turns with and without requests of the page."""
    steps = max(200, effort.pairs * 100)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, ThreadPoolExecutor(1) as pool:
        home = Path(directory)
        environment = {
            "DET_DATA_DIR": str(home / "data"),
            "XDG_STATE_HOME": str(home / "state"),
            "DET_STORE": str(home / "store.sqlite"),
        }
        static = home / "static"
        static.mkdir()
        (static / "index.html").write_text("<!doctype html>")  # the page need not be built for this
        search = pool.submit(in_child, "bench.cases.following:search", {"steps": steps}, environment=environment)
        with DetUi(environment, static) as server:
            _wait_for_reports(server, search)
            turns = _turns(server, search)
        search.result()
    return _rows(turns)


def _rows(turns: list[Turn]) -> list[Row]:
    case = f"a search of {TRIALS} trials, followed on the page"
    followed = [turn for turn in turns if turn.with_requests]
    if len(turns) < 4:
        return [Row(case, _OWN, note="the search was too short to tell", detail={"turns": len(turns)})]
    share = statistics.median(turn.cpu / turn.seconds for turn in followed)
    # Each turn with requests is compared with the mean of the turns before and after it.
    ratios = [
        turn.rate * 2 / (before.rate + after.rate)
        for before, turn, after in zip(turns, turns[1:], turns[2:], strict=False)
        if turn.with_requests
    ]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
    return [
        Row(
            case,
            _OWN,
            ratio=share,
            must_be=f"<= {MOST_OF_A_CORE:.2f}",
            ok=share <= MOST_OF_A_CORE,
            note="of a core: CPU time of the server",
            detail={"turns": [asdict(turn) for turn in turns]},
        ),
        Row(
            case,
            _OWN,
            ratio=middle,
            low=low,
            high=high,
            must_be=f">= {1 - MOST_LOST:.2f}",
            ok=middle >= 1 - MOST_LOST,
            note=f"steps of the trials a second, followed / not followed, {len(ratios)} turns",
        ),
    ]


def _turns(server: DetUi, search: Future[object]) -> list[Turn]:
    """Return the turns until the search ends, without the last one, in which it ends."""
    turns, with_requests = list[Turn](), False
    while True:
        start, steps, cpu = time.monotonic(), _steps(server), server.cpu()
        _pass_time(server, with_requests)
        used, now, done = server.cpu() - cpu, time.monotonic(), _steps(server)
        if search.done():
            return turns
        turns.append(Turn(with_requests, now - start, (done - steps) / (now - start), used))
        with_requests = not with_requests


def _pass_time(server: DetUi, with_requests: bool) -> None:
    """Wait for one turn, with or without the requests of the page of an experiment."""
    version, end = "", time.monotonic() + _TURN_SECONDS
    while (left := end - time.monotonic()) > 0:
        if with_requests:
            changes = json.loads(server.get(f"/api/changes?seen={version}"))
            version = changes["version"]
            if changes["changed"]:
                rows = json.loads(server.get("/api/trials?experiment=1"))["rows"]
                ids = ",".join(str(row["id"]) for row in rows)
                server.get("/api/experiments/1")
                server.get("/api/metrics?experiment=1")
                server.get(f"/api/curves?trials={ids}&key=training%2Floss&axis=batches&points=1000")
        time.sleep(min(1.0, left))


def _steps(server: DetUi) -> int:
    return sum(row["batches"] for row in json.loads(server.get("/api/trials?experiment=1"))["rows"])


def _wait_for_reports(server: DetUi, search: Future[object]) -> None:
    """Wait until there is a store with a trial that has reported."""
    while not search.done():
        time.sleep(0.2)
        changes: Mapping[str, object] = json.loads(server.get("/api/changes"))
        store = changes["store"]
        assert isinstance(store, dict)
        if store["problem"] is None and json.loads(server.get("/api/experiments"))["rows"] and _steps(server) > 0:
            return
    search.result()
    raise AssertionError("the search ended before anything was reported")


def search(*, steps: int) -> None:
    """Run a random search on two slots."""
    from bench.cases.searching import prepared

    searcher = {"name": "random", "metric": "loss", "max_trials": TRIALS, "max_length": {"batches": steps}}
    hparams = {"rate": {"type": "double", "minval": 0, "maxval": 1}, "steps": steps}
    with prepared("python3 steady.py", searcher, hparams) as run:
        run()
