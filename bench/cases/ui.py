"""The web page: 100 curves compared with TensorBoard and Trackio, tables of 10,000 trials, polls, memory, sizes.

A store with 1,000 trials of 10,000 reports of 2 metrics, and 9,000 trials without reports. The CPU time is that of a
server's process, which is a real one; requests pass its guard. The page is drawn by a real Chromium.
"""

from __future__ import annotations

import gzip
import json
import statistics
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.measure import Effort, in_child
from bench.table import Row
from bench.ui import browser, peers
from bench.ui.server import DetUi
from bench.ui.store import REPORTS

TRIALS, MORE_TRIALS, CURVES = 1_000, 9_000, 100
_POLLS, _REPETITIONS, _FRESH = 500, 10, 3  # the system counts CPU time in steps of 10 ms
_OWN = "determined"
_SERVER_CPU = "CPU time of the server"
_PAGES = (
    "/runs",
    "/runs?cols=id,training%2Floss.min,training%2Faccuracy.last",
    "/runs?view=experiments",
    "/experiments/1",
    *(f"/experiments/1?tab={tab}" for tab in ("hparams", "search", "checkpoints", "code", "config", "log", "notes")),
    "/trials/1",
    "/compare?trials=1-20",
    "/failures",
    "/queue",
    "/models",
)


def ui(effort: Effort) -> list[Row]:
    """Send the requests of the page to the servers, and let a browser draw it."""
    trials = max(20, min(TRIALS, effort.store_rows // 1000))
    more, curves = min(MORE_TRIALS, 9 * trials), min(CURVES, trials)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        home = Path(directory)
        environment = _filled(home / "large", trials, more)
        rows = _curve_rows(home, environment, trials, curves)
        with DetUi(environment) as server:
            rows += _server_rows(server, curves, trials + more)
            reason = browser.why_not()
            if reason is not None:
                return [*rows, Row("the page in a browser", _OWN, note=reason)]
            server.get(_curves_path(trials))  # derives the rest once, which takes a while
            with browser.visiting(server) as visitor:
                rows += _drawn_rows(visitor, curves, trials, trials + more)
                for address in _PAGES:
                    visitor.visit(address)
            while json.loads(server.get("/api/trials?metric=training%2Floss"))["pending_summaries"]:
                time.sleep(1)  # they are computed in the background
            rows.append(_megabytes_row("memory of the server after all pages", server.megabytes(), 200))
        with DetUi(_filled(home / "small", 0, trials)) as server, browser.visiting(server) as visitor:
            rows.append(_table_row(visitor, trials, 0.5))
    return [*rows, _size_row()]


def _filled(home: Path, trials: int, more: int) -> dict[str, str]:
    """Write a store, and return the environment in which it is used."""
    home.mkdir()
    environment = {
        "DET_DATA_DIR": str(home / "data"),
        "XDG_STATE_HOME": str(home / "state"),
        "DET_STORE": str(home / "store.sqlite"),
    }
    in_child("bench.ui.store:fill", {"trials": trials, "more": more}, environment=environment)
    return environment


def _curve_rows(home: Path, environment: dict[str, str], trials: int, curves: int) -> list[Row]:
    """Restart each server and request curves that are not cached; ours and the peers in turns."""
    case = f"{curves} curves, the first time, of {trials:,} x {REPORTS:,} reports"
    ours = [_first_curves(environment, home, curves)]
    board = peers.tensorboard(home, trials, curves) if peers.installed("tensorboard") else None
    ours.append(_first_curves(environment, home, curves))
    track = peers.trackio(home, curves) if peers.installed("trackio") else None
    ours.append(_first_curves(environment, home, curves))
    own = {name: statistics.median(one[name] for one in ours) for name in ours[0]}
    limits = [(1 / 10, "TensorBoard", board), (1 / 4, "Trackio", track)]
    answers = [_judged("from its start to the first answer", own["answer"], 0.8, "CPU time of det ui")]
    rows = [
        Row(case, _OWN, us=own["first"] * 1e6, note=f"{own['bytes'] / 1e6:.1f} MB are sent", detail={"runs": ours}),
    ]
    for share, who, found in limits:
        if found is None:
            rows.append(Row(case, who, note="not installed"))
            continue
        note = f"{found['bytes'] / 1e6:.1f} MB are sent, {found['megabytes']:.0f} MB of memory"
        rows.append(Row(case, who, us=found["first"] * 1e6, note=note, detail=found))
        ratio = own["first"] / found["first"]
        rows.append(
            Row(case, f"{_OWN} / {who}", ratio=ratio, must_be=f"<= {share:.2f}", ok=ratio <= share, note=_SERVER_CPU)
        )
        answers.append(Row(answers[0].case, who, us=found["answer"] * 1e6))
    return [*answers, *rows]


def _first_curves(environment: dict[str, str], home: Path, curves: int) -> dict[str, float]:
    """Return CPU seconds to the first answer, and of curves that are not in the cache."""
    Path(environment["DET_DATA_DIR"], "curves.sqlite").unlink(missing_ok=True)
    static = home / "static"
    static.mkdir(exist_ok=True)
    (static / "index.html").write_text("<!doctype html>")  # the page need not be built for this
    with DetUi(environment, static) as server:
        server.version()
        answer = server.cpu()
        content = server.get(_curves_path(curves))
        first = server.cpu() - answer
        assert json.loads(content)["curves"][0]["points"] == REPORTS
        return {"answer": answer, "first": first, "bytes": float(len(content))}


def _curves_path(curves: int) -> str:
    return f"/api/curves?trials={','.join(map(str, range(1, curves + 1)))}&key=training%2Floss"


def _server_rows(server: DetUi, curves: int, trials: int) -> list[Row]:
    version = server.version()
    kept = server.cpu_of(f"{_curves_path(curves)}&points=999")  # another request: from the cache file
    again = server.cpu_of(_curves_path(curves), _REPETITIONS)
    table = len(server.get("/api/trials"))
    rows = server.cpu_of("/api/trials", _REPETITIONS)
    poll = server.cpu_of(f"/api/changes?seen={version}", _POLLS)
    return [
        Row(f"{curves} curves from the cache file", _OWN, us=kept * 1e6, note="after a restart of the server"),
        _judged(f"{curves} curves again", again, 0.02),
        _judged(f"rows of a table of {trials:,} trials", rows, None, f"{table / 1e6:.1f} MB are sent"),
        _judged("a poll of an unchanged store", poll, 0.001),
    ]


def _drawn_rows(visitor: browser.Visitor, curves: int, trials: int, rows: int) -> list[Row]:
    """Measure charts and tables: the median of a few visits."""
    found = [_table_row(visitor, rows, 1.0)]
    for count, limit in ((curves, 0.2), (trials, 2.0)):
        address = f"/experiments/1?top={count}&metric=training%2Floss"
        visits = [visitor.measure(address, browser.CURVES) for _ in range(_FRESH)]
        after = statistics.median(one.after_answer for one in visits)
        found.append(_drawn_row(f"{count:,} curves, from the answer to drawn", after, limit, visits))
    heap = visits[-1].heap
    return [*found, _megabytes_row(f"heap of the browser with {trials:,} curves", heap, 50)]


def _table_row(visitor: browser.Visitor, rows: int, limit: float) -> Row:
    visits = [visitor.measure("/runs", browser.TABLE_ROW) for _ in range(_FRESH)]
    seconds = statistics.median(one.seconds for one in visits)
    return _drawn_row(f"table of {rows:,} trials, from the address to drawn", seconds, limit, visits)


def _drawn_row(case: str, seconds: float, limit: float, visits: list[browser.Drawn]) -> Row:
    server, page = (statistics.median(getattr(one, name) for one in visits) for name in ("server_cpu", "page_cpu"))
    note = f"on the wall; CPU from the address on: server {server:.2f} s, thread of the page {page:.2f} s"
    return _judged(case, seconds, limit, note, {"visits": [asdict(one) for one in visits]})


def _size_row() -> Row:
    from determined.built_page import STATIC

    size = sum(len(gzip.compress((STATIC / name).read_bytes())) for name in ("page.js", "page.css"))
    note = f"{size / 1000:.0f} kB"
    return Row("scripts and styles, gzip", _OWN, must_be="<= 100 kB", ok=size <= 100_000, note=note)


def _megabytes_row(case: str, found: float, limit: float) -> Row:
    return Row(case, _OWN, must_be=f"<= {limit:g} MB", ok=found <= limit, note=f"{found:.0f} MB")


def _judged(
    case: str, seconds: float, limit: float | None, note: str = _SERVER_CPU, detail: dict[str, Any] | None = None
) -> Row:
    must_be = "" if limit is None else f"<= {limit * 1000:g} ms"
    ok = None if limit is None else seconds <= limit
    return Row(case, _OWN, us=seconds * 1e6, must_be=must_be, ok=ok, note=note, detail=detail or {})
