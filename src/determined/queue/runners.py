"""A process that runs one experiment of the queue, and the line to it."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack

from determined.experiment.files import ExperimentFiles
from determined.queue.daemon import DET
from determined.queue.surroundings import surroundings
from determined.store.experiment_records import Experiment
from determined.store.queueing import Entry

_MOST_BYTES = 1 << 16
_SECONDS_OF_PATIENCE = 3.0
_SECONDS_TO_FALL_SILENT = 1.0  # what a killed runner had started is ended by others, a moment later


class QueueRunner:
    """`det experiment activate`, which starts trials on those slots only that it is granted.

    See `engines/granted.py` for what is said. When the line breaks, the runner lets its trials save, and ends.
    """

    def __init__(self, entry: Entry, experiment: Experiment, store_place: str, slots: int) -> None:
        self.entry = entry
        self.holder_before = experiment.holder
        self.started = self._had_slots = time.monotonic()
        self.is_let_go = False
        self._wanted: list[tuple[float, int]] = []  # until when, and how many; the newest one has no end yet
        self._uses: tuple[int, ...] = ()
        self._seen = 0
        self._sent: dict[int, tuple[int, ...]] = {0: ()}  # grants that it may act by
        self._received = b""
        self._ended: float | None = None
        files = ExperimentFiles.for_key(experiment.key)
        python, environment = surroundings(files, os.environ)
        descriptor = os.open(files.runner_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with open(descriptor, "ab") as output, ExitStack() as if_it_fails:
            self.connection, theirs = socket.socketpair()
            if_it_fails.callback(self.connection.close)
            self.connection.setblocking(False)
            options = ["--slots", str(slots), "--granted-by", str(theirs.fileno())]
            if entry.max_trials is not None:
                options += ["--max-trials", str(entry.max_trials)]
            with theirs:
                self._process = subprocess.Popen(
                    [python, "-c", DET, "experiment", "activate", str(entry.experiment_id), *options],
                    env={**environment, "DET_STORE": store_place},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # a Ctrl-C to the daemon is not for it
                )
            if_it_fails.pop_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def wants(self) -> int | None:
        """The most that it wanted a moment ago, or does now; None until it has said so.

        Between the end of a trial and the start of the next one it may want less for a moment. What it has is not given
        away for that.
        """
        recently = time.monotonic() - _SECONDS_OF_PATIENCE
        self._wanted = [(until, count) for until, count in self._wanted if until >= recently]
        return max((count for _, count in self._wanted), default=None)

    @property
    def granted(self) -> tuple[int, ...]:
        return self._sent[max(self._sent)]

    @property
    def has(self) -> tuple[int, ...]:
        """The slots that nobody else can be given: its own first, those in use before the others.

        Grants that it may not have read yet count as well.
        """
        own = sorted(self.granted, key=lambda number: (number not in self._uses, number))
        others = {*self._uses, *(number for grant in self._sent.values() for number in grant)} - set(own)
        return (*own, *sorted(others))

    def grant(self, slots: Sequence[int]) -> None:
        """Nothing is said when that is no news."""
        if set(slots) == set(self.granted):
            return
        number = max(self._sent) + 1
        try:
            # A few bytes: they always fit, unless it has not read for a very long time.
            self.connection.sendall(json.dumps({"grant": sorted(slots), "number": number}).encode() + b"\n")
        except OSError:
            return  # it is about to end
        self._sent[number] = tuple(slots)

    def read(self) -> bool:
        """Take in what it said; False when it will say nothing any more."""
        while True:
            try:
                data = self.connection.recv(_MOST_BYTES)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            *lines, self._received = (self._received + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                self._uses, self._seen = tuple(message["uses"]), message["seen"]
                self._hear(message["wants"])
                self._sent = {number: grant for number, grant in self._sent.items() if number >= self._seen}

    def _hear(self, wants: int) -> None:
        if self._wanted:
            self._wanted[-1] = (time.monotonic(), self._wanted[-1][1])
        self._wanted.append((math.inf, wants))

    def ended(self) -> int | None:
        """The exit code once it is gone, with all that it had started."""
        code = self._process.poll()
        if code is None:
            return None
        self._ended = self._ended or time.monotonic()
        if code < 0 and time.monotonic() - self._ended < _SECONDS_TO_FALL_SILENT:
            return None
        return code

    def seconds_without_slots(self) -> float:
        if self.has:
            self._had_slots = time.monotonic()
        return time.monotonic() - self._had_slots

    def let_go(self) -> None:
        """It pauses: its trials save and leave."""
        self.is_let_go = True
        self.connection.close()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended by then."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True
