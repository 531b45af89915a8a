"""TensorBoard and Trackio with the same curves: the time of their servers until 100 of them are answered.

Both get the cheaper option. Trackio stores no more runs than are requested, in as many requests as it needs, because it
answers at most 64 runs at once. TensorBoard reads all runs before it answers: the files of all are the same one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import sys
import time
from pathlib import Path
from urllib.parse import urlencode

from bench.measure import in_child
from bench.ui.server import Server
from bench.ui.store import REPORTS, values

_TENSORBOARD = """
import sys
from tensorboard import program
board = program.TensorBoard()
board.configure(argv=["", "--logdir", sys.argv[1], "--port", "0"])
print(board.launch(), flush=True)
__import__("threading").Event().wait()
"""
_TRACKIO = """
import contextlib, sys, trackio
with contextlib.redirect_stdout(sys.stderr):
    _, url, *_ = trackio.show(project="bench", open_browser=False, block_thread=False)
print(url, flush=True)
__import__("threading").Event().wait()
"""
_MOST_RUNS = 64  # that Trackio answers at once


def installed(name: str) -> bool:
    """Return whether the package is installed."""
    return importlib.util.find_spec(name) is not None


def tensorboard(home: Path, runs: int, curves: int) -> dict[str, float]:
    """Return the seconds of CPU time and bytes until the curves are answered; everything is read before."""
    logs = home / "tensorboard"
    in_child("bench.ui.peers:write_events", {"place": str(logs / "0")})
    for number in range(1, runs):
        (logs / str(number)).mkdir()
        os.link(logs / "0" / "events.out.tfevents.1", logs / str(number) / "events.out.tfevents.1")
    with Server([sys.executable, "-c", _TENSORBOARD, str(logs)], {}) as server:
        server.get("/")
        answer = server.cpu()
        while len(json.loads(server.get("/data/plugin/scalars/tags"))) < runs or not _is_idle(server):
            pass
        wanted = [("tag", "loss"), *(("runs", str(number)) for number in range(curves))]
        kind = "application/x-www-form-urlencoded"
        sent = server.post("/data/plugin/scalars/scalars_multirun", urlencode(wanted), kind)
        assert len(json.loads(sent)) == curves
        return {"answer": answer, "first": server.cpu(), "bytes": float(len(sent)), "megabytes": server.megabytes()}


def _is_idle(server: Server) -> bool:
    """Return whether the process used no CPU time for a moment."""
    before = server.cpu()
    time.sleep(1)
    return server.cpu() - before < 0.05


def write_events(*, place: str) -> None:
    """Write the event file of one run, as a program would with TensorBoard's own writer."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    Path(place).mkdir(parents=True)
    with open(Path(place) / "events.out.tfevents.1", "wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=1e9, file_version="brain.Event:2").SerializeToString())
        for step, loss in values(0):
            for tag, value in (("loss", loss), ("accuracy", 1 - loss / 2)):
                (single,) = struct.unpack("f", struct.pack("f", value))
                summary = Summary(value=[Summary.Value(tag=tag, simple_value=single)])
                writer.write(Event(wall_time=1e9 + step, step=step, summary=summary).SerializeToString())


def trackio(home: Path, curves: int) -> dict[str, float]:
    """Return the seconds of CPU time and bytes until the curves are answered, and once more."""
    environment = {"TRACKIO_DIR": str(home / "trackio"), "HF_HUB_OFFLINE": "1"}
    in_child("bench.ui.peers:write_runs", {"runs": curves}, environment=environment)
    with Server([sys.executable, "-c", _TRACKIO], environment) as server:
        server.get("/version")
        found = {"answer": server.cpu()}
        for name in ("first", "again"):
            before, sent = server.cpu(), 0
            for start in range(0, curves, _MOST_RUNS):
                runs = [
                    {"run": f"run-{n}", "run_id": f"run-{n}"} for n in range(start, min(curves, start + _MOST_RUNS))
                ]
                # As its page requests them: without a number of points, so that its server chooses.
                asked = {"project": "bench", "runs": runs, "scalar_only": True}
                answer = server.post("/api/get_logs_batch", json.dumps(asked), "application/json")
                assert len(json.loads(answer)["data"]) == len(runs)
                sent += len(answer)
            found |= {name: server.cpu() - before, "bytes": float(sent)}
        return {**found, "megabytes": server.megabytes()}


def write_runs(*, runs: int) -> None:
    """Write runs into Trackio's database with its own function."""
    from trackio.sqlite_storage import SQLiteStorage

    times = [f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}" for second in range(REPORTS)]
    for number in range(runs):
        reports = [{"loss": loss, "accuracy": 1 - loss / 2} for _, loss in values(number)]
        SQLiteStorage.bulk_log("bench", f"run-{number}", reports, steps=list(range(REPORTS)), timestamps=times)
