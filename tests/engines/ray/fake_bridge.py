"""A bridge process without Ray: it speaks the protocol of `engines/ray/bridge.py`, and sends what a test asks for.

with FakeBridge(tmp_path) as fake:
    engine = fake.engine()                       # nodes a and b, two slots each
    fake.send({"granted": 1, "shares": [["a", 1, [], 1]]})
    assert fake.receive("start")["parts"][0]["node"] == "a"
"""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from determined.engines.base import Event
from determined.engines.ray.bridge_process import BridgeProcess
from determined.engines.ray.engine import NodeData, RayEngine
from determined.engines.warm import messages
from tests.helpers.waiting import wait_until

NODES: list[list[Any]] = [["a", "10.0.0.1", "first", 2], ["b", "10.0.0.2", "second", 2]]
CLUSTER: dict[str, Any] = {"cluster": NODES, "kind": "CPU", "can_grow": False}

# Passes messages on between the engine and the test. It is a process, so that its death is a real one.
PROGRAM = """
import os, socket, threading
engine = socket.socket(fileno={connection})
test = socket.socket(socket.AF_UNIX)
test.connect({path!r})
test.sendall(b"%d\\n" % os.getpid())
def copy(source, target):
    while data := source.recv(65536):
        target.sendall(data)
    os._exit({code})
threading.Thread(target=copy, args=(test, engine)).start()
copy(engine, test)
"""


class FakeBridge:
    """The test's end of a bridge process. Use it as a context."""

    def __init__(self, directory: Path, code: int = 3) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        # Relative: the path of a socket is limited to 107 bytes.
        self._path = os.path.relpath(directory / "fake")
        self._listener.bind(self._path)
        self._listener.listen()
        self._code = code
        self._heard: list[dict[str, Any]] = []
        self._connection: socket.socket | None = None
        self.pid = 0
        self._engine: RayEngine | None = None

    def __enter__(self) -> FakeBridge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._engine is not None:
            self._engine.close()
        for connection in (self._connection, self._listener):
            if connection is not None:
                connection.close()

    def engine(
        self, monkeypatch: pytest.MonkeyPatch, slots_per_job: int = 1, first: dict[str, Any] = CLUSTER
    ) -> RayEngine:
        """An engine whose bridge begins with this message."""
        # The package ray is looked for and not imported; here it need not be installed.
        monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
        node_data = NodeData("experiment", "tests:Setup", {}, Path("code.tar"))
        self._engine = RayEngine("head:1", slots_per_job, node_data, bridge=lambda: self._start(first))
        assert self.next()["connect"] == "head:1"
        return self._engine

    def _start(self, first: dict[str, Any]) -> BridgeProcess:
        program = PROGRAM.replace("{path!r}", repr(self._path)).replace("{code}", str(self._code))
        process = BridgeProcess(program)
        self._connection = self._listener.accept()[0]
        self._connection.settimeout(60)
        with self._connection.makefile("rb", buffering=0) as file:
            self.pid = int(file.readline())
        self.send(first)
        return process

    def send(self, *sent: dict[str, Any]) -> None:
        """Send messages to the engine."""
        assert self._connection is not None
        for message in sent:
            messages.send(self._connection, message)

    def events_of(self, node: str, *events: list[Any]) -> None:
        self.send({"events": node, "list": list(events)})

    def receive(self, kind: str) -> dict[str, Any]:
        """Return the next message of the engine of this kind; others are skipped."""
        while kind not in (message := self.next()):
            pass
        return message

    def next(self) -> dict[str, Any]:
        """Return the next message of the engine."""
        assert self._connection is not None
        received = messages.receive(self._connection)
        assert received is not None, "the engine has closed the connection"
        return received.message

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def collected(engine: RayEngine, count: int) -> list[Event]:
    """Return the next N events of an engine."""
    found: list[Event] = []

    def enough() -> bool:
        found.extend(engine.events(0.05))
        return len(found) >= count

    wait_until(enough)
    return found


def settle(engine: RayEngine) -> None:
    """Let the engine handle all messages that were sent before."""
    while engine._bridge.has_message(0.2):
        assert engine.events(0.0) == []
