"""A bridge process without Ray: it simulates the nodes of a cluster and their trials, for a real runner and its store.

It speaks the protocol of `determined/engines/ray/bridge.py`. Each trial makes the calls of a real worker that reports
training metrics once a second and asks whether to stop, through the real codec of the store's relay: the next call
follows the answer to the one before. Every two seconds a node adds what nodes say about running jobs, and what was
appended to their TensorBoard files.
"""

from __future__ import annotations

import base64
import heapq
import itertools
import json
import queue
import random
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import psutil

from determined.engines.ray.bridge_process import BridgeProcess
from determined.engines.warm import messages as frames
from determined.store.process import Process
from determined.store.relay import codec, messages
from determined.store.rows import AttemptStart, EndRow, MetricRow, NewRun, Row, StatusRow

_SECONDS_BETWEEN_STATUS = 2.0
_PROGRAM = """\
import sys
sys.path.insert(0, {repository!r})
from bench.simulated_nodes import main
main({{connection}}, {{parent}}, *{arguments!r})
"""


def bridge(nodes: int, slots: int, trials: int, seconds: float, result: Path) -> Callable[[], BridgeProcess]:
    """Return a bridge for `RayEngine(bridge=...)`: N trials run for a number of seconds after the last one has started.

    `result` receives the CPU seconds of the runner in that time, and the number of its answers.
    """
    arguments = (nodes, slots, trials, seconds, str(result))
    repository = str(Path(__file__).parents[1])
    return lambda: BridgeProcess(_PROGRAM.format(repository=repository, arguments=arguments))


def main(connection: int, parent: int, nodes: int, slots: int, trials: int, seconds: float, result: str) -> NoReturn:
    free = {f"node-{number}": slots for number in range(nodes)}
    runner = socket.socket(fileno=connection)
    _Simulation(runner, psutil.Process(parent), free, trials, seconds, Path(result)).run()
    sys.exit(0)


@dataclass
class _Trial:
    """A running trial: its current call, and how far it is."""

    key: str
    trial: int
    node: str
    connection: int
    calls: Any = field(default_factory=itertools.count)
    attempt: int = 0
    reports: int = 0
    reported: float = 0.0  # when, by the monotonic clock
    call: str = ""
    is_ending: bool = False  # its last report was sent


class _Simulation:
    """The nodes and their trials. All events of a node in one round are sent as one message."""

    def __init__(
        self,
        runner: socket.socket,
        process: psutil.Process,
        free: dict[str, int],
        expected: int,
        seconds: float,
        result: Path,
    ) -> None:
        self._runner, self._process, self._free = runner, process, free
        self._expected, self._seconds, self._result = expected, seconds, result
        self._trials: dict[tuple[str, int], _Trial] = {}
        self._groups: dict[int, str] = {}
        self._numbers = itertools.count(1)
        self._said: dict[str, list[list[Any]]] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._random = random.Random(0)
        self._begun = self._answers = 0
        self._is_over = False
        self._outbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._send_all, daemon=True).start()

    def run(self) -> None:
        """Serve the runner until it closes the connection."""
        assert frames.receive(self._runner) is not None  # the settings of the experiment
        nodes = [[name, f"10.0.0.{number}", name, slots] for number, (name, slots) in enumerate(self._free.items())]
        self._send({"cluster": nodes, "kind": "CPU", "can_grow": False})
        for name in self._free:
            self._say(name, ["ready"])
        while True:
            self._flush()
            wait = self._due[0][0] - time.monotonic() if self._due else 1.0
            while select.select([self._runner], [], [], max(0.0, wait))[0]:
                received = frames.receive(self._runner)
                if received is None:
                    return
                self._handle(received.message)
                wait = 0.0
            while self._due and self._due[0][0] <= time.monotonic():
                heapq.heappop(self._due)[2]()

    def _handle(self, message: dict[str, Any]) -> None:
        if "request" in message:
            for number in message["return"]:
                self._free[self._groups.pop(number)] += 1
            for number in message["request"]:
                node = max(self._free, key=self._free.__getitem__)
                self._free[node] -= 1
                self._groups[number] = node
                self._send({"granted": number, "shares": [[node, 1, [], 1]]})
        elif "start" in message:
            self._start(message["start"], message["parts"][0]["node"])
        elif "answers" in message:
            for node, commands in message["answers"].items():
                for _, connection, body in commands:
                    self._answered(self._trials[node, connection], messages.parse(body.encode()))

    def _start(self, job: dict[str, Any], node: str) -> None:
        trial = _Trial(job["key"], int(job["environment"]["DET_TRIAL_ID"]), node, next(self._numbers))
        self._trials[node, trial.connection] = trial
        run = NewRun("train.py", f"/runs/{trial.trial}", {}, {"name": "simulated"}, time.time())
        process = Process("simulated", 1, "")
        key = f"run-{trial.trial}-0"
        start = AttemptStart(key, run, process, time.time(), allocation=(trial.trial, trial.key))
        self._call(trial, "begin_attempt", [start])

    def _answered(self, trial: _Trial, answer: dict[str, Any]) -> None:
        """Make the next call of a worker, or wait for its next report."""
        assert "error" not in answer, answer
        self._answers += 1
        if trial.call == "begin_attempt":
            trial.attempt = codec.method("begin_attempt").result(answer["result"]).number
            # Not all at the same time.
            self._later(self._random.random(), lambda: self._report(trial))
            self._later(self._random.random(), lambda: self._tell_status(trial))
            self._begun += 1
            if self._begun == self._expected:
                self._measure()
        elif trial.is_ending:
            del self._trials[trial.node, trial.connection]
            self._say(trial.node, ["wakeup", trial.key])
            self._say(trial.node, ["exited", trial.key, 0, None, False, 1.0, False])
        elif trial.call == "write":
            self._call(trial, "decision", [trial.trial, 0])
        else:
            self._later(trial.reported + 1.0 - time.monotonic(), lambda: self._report(trial))

    def _report(self, trial: _Trial) -> None:
        """Write the metrics of a second; with the last ones, the end of the attempt."""
        trial.reports += 1
        trial.reported, trial.is_ending = time.monotonic(), self._is_over
        written, step = time.time(), trial.reports
        body = json.dumps({"loss": 1 / step, "accuracy": 0.5})
        rows: list[Row] = [MetricRow(trial.trial, trial.attempt, 2 * step, "training", step, body, written)]
        if trial.is_ending:
            rows.append(MetricRow(trial.trial, trial.attempt, 2 * step + 1, "validation", step, body, written))
            rows.append(EndRow(trial.trial, trial.attempt, "completed", written, float(step)))
            rows.append(StatusRow(trial.trial, trial.attempt, ""))
        self._call(trial, "write", [[codec.tagged(row) for row in rows]])

    def _tell_status(self, trial: _Trial) -> None:
        """Send what a node reports about each running job besides its calls, and the changes of its files."""
        if trial.is_ending:
            return
        self._say(trial.node, ["status", trial.key, float(trial.reports), True])
        added, size = bytes(120), 120 * trial.reports
        path = f"simulated-{trial.trial}/tensorboard/events"
        self._say(trial.node, ["file", path, size, base64.b64encode(added).decode()])
        self._later(_SECONDS_BETWEEN_STATUS, lambda: self._tell_status(trial))

    def _measure(self) -> None:
        """Measure the runner from now on, then end all trials."""
        began, used, answers = time.monotonic(), self._cpu(), self._answers

        def finish() -> None:
            seconds = time.monotonic() - began
            found = {"cpu": self._cpu() - used, "seconds": seconds, "answers": self._answers - answers}
            self._result.write_text(json.dumps(found))
            self._is_over = True

        self._later(self._seconds, finish)

    def _cpu(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def _call(self, trial: _Trial, name: str, arguments: list[Any]) -> None:
        trial.call = name
        number = next(trial.calls)
        body = messages.request(number, trial.key, name, json.dumps(arguments), hello=number == 0)
        self._say(trial.node, ["store", trial.connection, body.decode()])

    def _say(self, node: str, event: list[Any]) -> None:
        self._said.setdefault(node, []).append(event)

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._order), what))

    def _send(self, message: dict[str, Any]) -> None:
        """Queue a message: the runner may be sending, too, and both would wait for the other to read."""
        self._outbox.put(message)

    def _send_all(self) -> None:
        """Thread: send the queued messages."""
        while True:
            frames.send(self._runner, self._outbox.get())

    def _flush(self) -> None:
        said, self._said = self._said, {}
        for node, events in said.items():
            self._send({"events": node, "list": events})
