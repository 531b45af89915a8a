"""The jobs of a node, with its real engine: what they are told, and the files that they leave behind."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from determined.engines.base import Interpreter, Job
from determined.engines.command import parse_entrypoint
from determined.engines.local import LocalEngine
from determined.engines.ray import run_files
from determined.engines.ray.encoding import encode_job
from determined.engines.ray.node import jobs as node_jobs
from determined.engines.ray.node.jobs import NodeJobs
from determined.engines.relay_socket import RelaySocket
from determined.engines.slots import Slots
from tests.helpers.waiting import PATIENCE_SECONDS

SHOW = """
import json, os, sys
names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
print(json.dumps({"imported": "psycopg" in sys.modules, **{name: os.environ.get(name) for name in names}}))
"""
# As a rank on another node than rank 0: its run directory has no description.
WRITE = """
import os, pathlib
events = pathlib.Path(os.environ["DET_RUNS_DIR"]) / "20260101T000000Z-1-abcdef" / "tensorboard" / "events"
events.parent.mkdir(parents=True)
events.write_bytes(bytes(range(250)) * 4)
"""


class Directory:
    """A setup whose jobs work in one directory."""

    def __init__(self, place: Path) -> None:
        self.directory = place

    def prepare(self, stopped: Callable[[], bool]) -> Interpreter | None:
        return None

    def place(self, job: Job) -> Job:
        return replace(job, directory=self.directory)

    def output(self) -> list[tuple[float, str]]:
        return []


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeJobs]:
    with ExitStack() as stack:
        environment = {**os.environ, "NCCL_SOCKET_IFNAME": "ib0"}
        engine = stack.enter_context(LocalEngine(Slots(2, (), 1), environment, store_is_server=True))
        relay = stack.enter_context(closing(RelaySocket(engine.private_directory)))
        yield NodeJobs(
            engine,
            relay,
            Directory(tmp_path),
            name="node",
            address="127.0.0.2",
            runs=tmp_path / "runs",
            environment=environment,
        )


def run(node: NodeJobs, directory: Path, text: str) -> list[list[Any]]:
    """Run a program as the second part of a job, and return its events up to its end."""
    (directory / "program.py").write_text(text)
    job = Job("1.1.1", parse_entrypoint("python3 program.py"), {}, directory, 2)
    part = {"rank": 1, "addresses": ["127.0.0.1", "127.0.0.2"], "slots": [1, 1], "port": 1, "gpus": []}
    events = node.execute(["start", encode_job(job), part])
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any(event[0] == "exited" for event in events):
        assert time.monotonic() < deadline, events
        events += node.collect(0.1)
    return events


def test_what_a_job_is_told_and_what_was_imported_before(node: NodeJobs, tmp_path: Path) -> None:
    events = run(node, tmp_path, SHOW)
    (shown,) = (json.loads(event[5]) for event in events if event[0] == "line" and event[3] == "stdout")
    loopback = next(name for name, each in psutil.net_if_addrs().items() if any(a.address == "127.0.0.1" for a in each))
    assert shown == {"imported": True, "GLOO_SOCKET_IFNAME": loopback, "NCCL_SOCKET_IFNAME": "ib0"}


@pytest.mark.parametrize("in_time", [True, False])
def test_the_end_of_a_job_comes_after_its_files(
    node: NodeJobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_time: bool
) -> None:
    monkeypatch.setattr(run_files, "_CHUNK", 100)
    monkeypatch.setattr(run_files, "_MOST_BYTES", 200)
    if not in_time:
        monkeypatch.setattr(node_jobs, "_SECONDS_TO_COPY", -1.0)
    events = run(node, tmp_path, WRITE)
    copied = sum(len(base64.b64decode(event[3])) for event in events if event[0] == "file")
    warnings = [event[5] for event in events if event[0] == "line" and event[4] == "WARNING"]
    if in_time:
        assert (copied, warnings) == (1000, [])
    else:
        assert copied < 1000
        assert "not completely copied from this node" in warnings[0]
    # What is missing follows.
    monkeypatch.setattr(node_jobs, "_SECONDS_BETWEEN_STATUS", 0.0)
    while more := [event for event in node.collect(0.0) if event[0] == "file"]:
        copied += sum(len(base64.b64decode(event[3])) for event in more)
    assert copied == 1000
