"""A search that is followed on the web page: the CPU time of the server, and how much slower the trials get.

One search of 16 trials runs. In turns somebody looks at it for two seconds, and nobody does: the page polls every
second and asks for everything that it shows when something has changed, as something always has. Every other time it is
the page of the experiment; in between the tables of runs and failures and the decisions of the search, as three tabs
would show them. The steps of a turn are read from the times of the reports afterwards: nobody has to ask for them.
"""

from __future__ import annotations

import bisect
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from bench.measure import Effort, in_child
from bench.table import Row
from bench.ui.server import DetUi

TRIALS = 16
MOST_OF_A_CORE, MOST_LOST = 0.03, 0.01
_TURN_SECONDS = 2
_OWN = "determined"

View = Literal["nobody", "experiment", "tables"]
_ORDER: tuple[View, ...] = ("nobody", "experiment", "nobody", "tables")
_CASES: dict[View, str] = {
    "experiment": f"a search of {TRIALS} trials, followed on the page",
    "tables": f"a search of {TRIALS} trials, followed in the tables of runs and failures and by its decisions",
}


@dataclass(frozen=True)
class Turn:
    """Some seconds of the search: who looked, and the CPU time of the server and of the requests that were made."""

    view: View
    began: float
    ended: float
    cpu: float
    client: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


def following(effort: Effort) -> list[Row]:
    """Compare the steps of the trials in neighbouring turns with and without somebody who looks."""
    steps = max(200, effort.pairs * 150)
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
        rates = _rates(environment["DET_STORE"], turns)
    return [row for view in _CASES for row in _rows(view, turns, rates)]


def _rows(view: View, turns: Sequence[Turn], rates: Sequence[float]) -> list[Row]:
    case = _CASES[view]
    places = [place for place in range(1, len(turns) - 1) if turns[place].view == view]
    if not places:
        return [Row(case, _OWN, note="the search was too short to tell", detail={"turns": len(turns)})]
    shares, clients = (
        statistics.median(getattr(turns[place], name) / turns[place].seconds for place in places)
        for name in ("cpu", "client")
    )
    # Each turn with somebody who looks beside the mean of the turns before and after it.
    ratios = [rates[place] * 2 / (rates[place - 1] + rates[place + 1]) for place in places]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
    asked = f"the requests themselves took {clients:.1%} of a core"
    return [
        Row(
            case,
            _OWN,
            ratio=shares,
            must_be=f"<= {MOST_OF_A_CORE:.2f}",
            ok=shares <= MOST_OF_A_CORE,
            note=f"of a core: CPU time of the server; {asked}",
            detail={"turns": [{**asdict(turn), "rate": rate} for turn, rate in zip(turns, rates, strict=True)]},
        ),
        Row(
            case,
            _OWN,
            ratio=middle,
            low=low,
            high=high,
            must_be=f">= {1 - MOST_LOST:.2f}",
            ok=middle >= 1 - MOST_LOST,
            note=f"steps of the trials a second, followed / not followed, {len(ratios)} turns; {asked}",
        ),
    ]


def _turns(server: DetUi, search: Future[object]) -> list[Turn]:
    """Return the turns until the search ends; the last one, in which it ends, is left out."""
    turns = list[Turn]()
    while True:
        view = _ORDER[len(turns) % len(_ORDER)]
        began, cpu, client = time.time(), server.cpu(), time.thread_time()
        _pass_time(server, view)
        turn = Turn(view, began, time.time(), server.cpu() - cpu, time.thread_time() - client)
        if search.done():
            return turns
        turns.append(turn)


def _pass_time(server: DetUi, view: View) -> None:
    """Wait for one turn; if somebody looks, with the requests of the page."""
    version, end = "", time.monotonic() + _TURN_SECONDS
    while (left := end - time.monotonic()) > 0:
        if view != "nobody":
            changes = json.loads(server.get(f"/api/changes?seen={version}"))
            version = changes["version"]
            if changes["changed"] and view == "experiment":
                _look_at_experiment(server)
            elif changes["changed"]:
                for path in ("/api/trials", "/api/failures", "/api/experiments/1/decisions"):
                    server.get(path)
        time.sleep(min(1.0, left))


def _look_at_experiment(server: DetUi) -> None:
    """Make the requests of the page of an experiment."""
    rows = json.loads(server.get("/api/trials?experiment=1"))["rows"]
    ids = ",".join(str(row["id"]) for row in rows)
    server.get("/api/experiments/1")
    server.get("/api/metrics?experiment=1")
    server.get(f"/api/curves?trials={ids}&key=training%2Floss&axis=batches&points=1000")


def _rates(place: str, turns: Sequence[Turn]) -> list[float]:
    """Return the steps of all trials a second in each turn. Between two reports of a trial steps are equally long."""
    reports: dict[int, list[tuple[float, int]]] = {}
    database = sqlite3.connect(place)
    found = database.execute(
        "SELECT trial_id, reported, step FROM metrics WHERE metric_group = 'training' ORDER BY step"
    )
    for trial, reported, step in found:
        reports.setdefault(trial, []).append((reported, step))
    database.close()
    return [
        sum(_steps_until(turn.ended, each) - _steps_until(turn.began, each) for each in reports.values()) / turn.seconds
        for turn in turns
    ]


def _steps_until(moment: float, reports: Sequence[tuple[float, int]]) -> float:
    """Return the steps that a trial had made at a moment, by its reports in their order."""
    place = bisect.bisect(reports, (moment, 0))
    if place in (0, len(reports)):
        return reports[place - 1][1] if place else 0.0
    (before, first), (after, second) = reports[place - 1 : place + 1]
    return first + (second - first) * (moment - before) / (after - before)


def _wait_for_reports(server: DetUi, search: Future[object]) -> None:
    """Wait until there is a store with a trial that has reported."""
    while not search.done():
        time.sleep(0.2)
        changes: Mapping[str, object] = json.loads(server.get("/api/changes"))
        store = changes["store"]
        assert isinstance(store, dict)
        if store["problem"] is None and any(row["batches"] for row in json.loads(server.get("/api/trials"))["rows"]):
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
