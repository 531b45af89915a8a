"""Jobs on slots that another process grants and takes back."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from determined.engines.base import Event, Exited, Job, Line
from determined.engines.command import parse_entrypoint
from determined.engines.granted import GrantedEngine
from determined.errors import EngineError

PROGRAM = "import os, time\nprint('slots', os.environ['CUDA_VISIBLE_DEVICES'], flush=True)\ntime.sleep(100)\n"


class Granter:
    """The other end of the connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rwb", buffering=0)
        connection.settimeout(30)

    def grant(self, slots: list[int], number: int) -> None:
        self._file.write(json.dumps({"grant": slots, "number": number}).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._file.readline())
        return message

    def close(self) -> None:
        self._file.close()


def until(engine: GrantedEngine, condition: Callable[[list[Event]], object]) -> None:
    for _ in range(600):
        if condition(engine.events(0.1)):
            return
    raise AssertionError("it never happened")


def is_short(engine: GrantedEngine) -> bool:
    """Return whether the engine lacks slots now; mypy assumes that an attribute does not change."""
    return engine.wants_more_slots


def lines(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Line)]


@pytest.fixture
def three_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a tool that lists GPUs into PATH, which suffices to count and to assign them."""
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nfor i in 0 1 2; do echo $i, GPU-$i; done\n")
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.usefixtures("three_gpus")
def test_jobs_get_the_slots_that_were_granted(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    ours, theirs = socket.socketpair()
    granter = Granter(theirs)
    with theirs, GrantedEngine(3, ours) as engine:

        def start(key: str, slots: int = 1) -> None:
            engine.start(Job(key, parse_entrypoint("python3 program.py"), {}, tmp_path, slots))

        assert (engine.slots, engine.free_slots()) == (3, 0)
        with pytest.raises(EngineError, match="needs 1 slot: 0 of 3 are free"):
            start("none")
        engine.announce_demand(2)
        assert granter.receive() == {"wants": 2, "uses": [], "seen": 0}
        assert is_short(engine)

        granter.grant([1, 2], 1)
        until(engine, lambda events: engine.free_slots() == 2)
        assert granter.receive() == {"wants": 2, "uses": [], "seen": 1}
        assert not is_short(engine)
        start("a")
        until(engine, lambda events: "slots 1" in lines(events))
        start("b")
        until(engine, lambda events: "slots 2" in lines(events))
        assert engine.preempted_jobs() == []

        # A slot may be used by another experiment when its job has ended and this was reported.
        granter.grant([2], 2)
        until(engine, lambda events: engine.preempted_jobs() == ["a"])
        assert is_short(engine)
        engine.kill("a")
        until(engine, lambda events: any(isinstance(event, Exited) for event in events))
        assert (engine.preempted_jobs(), engine.free_slots()) == ([], 0)
        received = [granter.receive()]
        while received[-1]["uses"] != [2]:
            received.append(granter.receive())
        assert received[-1] == {"wants": 2, "uses": [2], "seen": 2}
        assert all(2 in message["uses"] or message["seen"] < 2 for message in received)

        assert not engine.granter_exited
        granter.close()
        theirs.close()
        until(engine, lambda events: engine.granter_exited)
        assert engine.free_slots() == 0
        engine.announce_demand(1)  # no process receives it
        engine.kill("b")
        until(engine, lambda events: any(isinstance(event, Exited) for event in events))
