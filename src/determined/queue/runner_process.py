"""A runner: the process that runs one queued experiment, and the daemon's socket connection to it."""

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
from determined.queue.captured_environment import load_environment
from determined.queue.daemon_start import DET
from determined.store.experiment_records import Experiment
from determined.store.substores.queue import Entry

# More than one message has; longer data is read in several steps.
_MOST_BYTES = 1 << 16
_SECONDS_DEMAND_IS_KEPT = 3.0  # longer than the pause between two trials of a search
# After a runner was killed, its warm process still has to kill the trials. Only then are the slots free.
_SECONDS_FOR_TRIALS_TO_END = 1.0


class QueueRunner:
    """A `det experiment activate` process, which starts trials only on slots that the daemon grants.

    The protocol is described in `engines/granted.py`. If the connection breaks, the runner lets its trials save and
    exits.
    """

    def __init__(self, entry: Entry, experiment: Experiment, store_place: str, slots: int) -> None:
        self.entry = entry
        self.holder_before = experiment.holder
        # A new runner has not been granted slots yet; its time without slots counts from here.
        self.started = self._had_slots = time.monotonic()
        self.was_asked_to_pause = False
        self._wanted: list[tuple[float, int]] = []  # (end time, number of slots wanted); the newest ends at infinity
        self._uses: tuple[int, ...] = ()
        self._seen = 0
        self._sent: dict[int, tuple[int, ...]] = {0: ()}  # by number; grants that the runner may still act on
        self._received = b""
        self._ended: float | None = None
        files = ExperimentFiles.for_key(experiment.key)
        python, environment = load_environment(files, os.environ)
        descriptor = os.open(files.runner_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with open(descriptor, "ab") as output, ExitStack() as on_failure:
            self.connection, theirs = socket.socketpair()
            # If the process cannot be started, the connection is closed again.
            on_failure.callback(self.connection.close)
            # The daemon must never wait for a single runner.
            self.connection.setblocking(False)
            options = ["--slots", str(slots), "--granted-by", str(theirs.fileno())]
            if entry.max_trials is not None:
                options += ["--max-trials", str(entry.max_trials)]
            # Only the child may hold its end: otherwise the daemon would not notice that it exited.
            with theirs:
                self._process = subprocess.Popen(
                    [python, "-c", DET, "experiment", "activate", str(entry.experiment_id), *options],
                    env={**environment, "DET_STORE": store_place},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # a Ctrl-C in the daemon's terminal must not reach the runner
                )
            on_failure.pop_all()

    @property
    def pid(self) -> int:
        """The process id of the runner."""
        return self._process.pid

    @property
    def wants(self) -> int | None:
        """The largest number of slots that the runner wanted recently; None until it has reported one.

        Between the end of a trial and the start of the next one, a runner may want fewer slots for a moment; they must
        not be given to others for that.
        """
        recently = time.monotonic() - _SECONDS_DEMAND_IS_KEPT
        self._wanted = [(until, count) for until, count in self._wanted if until >= recently]
        # The maximum, so that a short dip is ignored.
        return max((count for _, count in self._wanted), default=None)

    @property
    def granted(self) -> tuple[int, ...]:
        """The slots of the newest grant."""
        return self._sent[max(self._sent)]

    @property
    def has(self) -> tuple[int, ...]:
        """The slots that this runner occupies: granted ones in use, granted ones not in use, then revoked ones.

        Earlier grants that the runner may not have read yet are included.
        """
        # Slots in use come first, because a smaller share keeps the first ones.
        own = sorted(self.granted, key=lambda number: (number not in self._uses, number))
        others = {*self._uses, *(number for grant in self._sent.values() for number in grant)} - set(own)
        return (*own, *sorted(others))

    def grant(self, slots: Sequence[int]) -> None:
        """Send a grant of slots, unless it equals the newest one."""
        if set(slots) == set(self.granted):
            return
        number = max(self._sent) + 1
        try:
            # Does not block: a few bytes always fit in the socket's buffer unless the runner has long stopped reading.
            self.connection.sendall(json.dumps({"grant": sorted(slots), "number": number}).encode() + b"\n")
        except OSError:
            # The grant is not recorded, since nothing was sent.
            return  # the runner is about to exit
        self._sent[number] = tuple(slots)

    def read(self) -> bool:
        """Read the runner's messages. Return False if the connection is closed."""
        while True:
            try:
                data = self.connection.recv(_MOST_BYTES)
            except BlockingIOError:
                return True
            # A runner that was killed resets the connection.
            except OSError:
                return False
            if not data:
                return False
            *lines, self._received = (self._received + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                self._uses, self._seen = tuple(message["uses"]), message["seen"]
                self._record_demand(message["wants"])
                # Grants before the last one that it has read cannot take effect any more.
                self._sent = {number: grant for number, grant in self._sent.items() if number >= self._seen}

    def _record_demand(self, wants: int) -> None:
        """Record the number of slots that the runner now wants."""
        if self._wanted:
            self._wanted[-1] = (time.monotonic(), self._wanted[-1][1])
        self._wanted.append((math.inf, wants))

    def ended(self) -> int | None:
        """Return the exit code once the runner and everything it had started have exited, else None."""
        code = self._process.poll()
        if code is None:
            return None
        self._ended = self._ended or time.monotonic()
        # Only after a kill: a runner that exits normally has waited for its trials.
        if code < 0 and time.monotonic() - self._ended < _SECONDS_FOR_TRIALS_TO_END:
            return None
        return code

    def seconds_without_slots(self) -> float:
        """Return for how long the runner has had no slots."""
        if self.has:
            self._had_slots = time.monotonic()
        return time.monotonic() - self._had_slots

    def ask_to_pause(self) -> None:
        """Close the connection, which makes the runner pause: its trials save and exit."""
        self.was_asked_to_pause = True
        self.connection.close()

    def wait(self, seconds: float) -> bool:
        """Wait for the runner to exit. Return whether it exited within this time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True
