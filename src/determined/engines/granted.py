"""An engine that may only use slots granted to it by another process, which can also preempt them.

Both sides exchange lines of JSON over a socket. The granting process (the queue daemon) sends `{"grant": [0, 1],
"number": 4}`. This engine answers `{"wants": 2, "uses": [0], "seen": 4}`: how many slots it could use, which slots jobs
are running on, and the number of the last grant that it has read. A slot that is no longer granted and no longer used
may be given to others once this engine has reported that.
"""

from __future__ import annotations

import json
import socket
from types import TracebackType
from typing import Any

from determined.engines.base import Event, Interpreter, Job, StoreCalls
from determined.engines.local import LocalEngine

# Grants are short; this only bounds what a single read allocates.
_MOST_BYTES = 1 << 16


class GrantedEngine:
    """A local engine that has no slots until some are granted. Used by one thread.

    `Engine` in `base.py` documents the methods that all engines have.
    """

    def __init__(self, slots: int, connection: socket.socket) -> None:
        self._connection = connection
        # Never block: `events` waits for jobs and grants in the same selector.
        self._connection.setblocking(False)
        self._received = b""  # the beginning of a line whose rest has not arrived yet
        self._granted: tuple[int, ...] = ()
        self._seen = 0
        self._wanted = 0
        self._reported: dict[str, Any] = {}
        self._unsent = b""  # the rest of a report that did not fit into the socket buffer
        self._granter_exited = False
        # Created before any grant, so that its imports run while the experiment waits for slots.
        self._local = LocalEngine(slots)
        self._local.restrict_to(())
        self._local.watch(connection.fileno())

    def __enter__(self) -> GrantedEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def slots(self) -> int:
        return self._local.slots

    @property
    def spans_machines(self) -> bool:
        return False

    def reason_not_to_fit(self, slots: int) -> str | None:
        return self._local.reason_not_to_fit(slots)

    def where(self, key: str) -> list[str]:
        return self._local.where(key)

    def serve_store(self, answer: StoreCalls) -> None:
        self._local.serve_store(answer)

    @property
    def ready(self) -> bool:
        return self._local.ready

    @property
    def wants_more_slots(self) -> bool:
        return len(self._granted) < self._wanted

    @property
    def granter_exited(self) -> bool:
        return self._granter_exited

    @property
    def reason_to_pause(self) -> str:
        return ""  # the next daemon resumes the experiment

    def free_slots(self) -> int:
        return self._local.free_slots()

    @property
    def reason_to_wait(self) -> str:
        return ""

    def announce_demand(self, slots: int) -> None:
        self._wanted = slots
        self._report()

    def preempted_jobs(self) -> list[str]:
        # Jobs keep running on slots that are no longer granted until the runner has let them save.
        return [key for key, slots in self._local.placement().items() if not set(slots) <= set(self._granted)]

    def use(self, interpreter: Interpreter) -> None:
        self._local.use(interpreter)

    def start(self, job: Job) -> list[int]:
        return self._local.start(job)

    def wake(self, key: str) -> None:
        self._local.wake(key)

    def kill(self, key: str) -> None:
        self._local.kill(key)

    def has_listener(self, key: str) -> bool:
        return self._local.has_listener(key)

    def interrupt(self, key: str) -> None:
        self._local.interrupt(key)

    def show_stacks(self, key: str) -> None:
        self._local.show_stacks(key)

    def cpu_seconds(self, key: str) -> float:
        return self._local.cpu_seconds(key)

    def events(self, timeout: float) -> list[Event]:
        """Return pending events, after applying grants that have arrived; see `Engine.events`."""
        # Grants are read afterwards: the local engine returns when the socket becomes readable (`watch`).
        events = self._local.events(timeout)
        self._read_grants()
        self._report()
        return events

    def close(self) -> None:
        # The selector must not hold a descriptor that is closed below.
        self._local.unwatch()
        self._local.close()
        self._connection.close()

    def _read_grants(self) -> None:
        """Apply all grants that have arrived; only the last one counts."""
        while not self.granter_exited:
            try:
                data = self._connection.recv(_MOST_BYTES)
            except BlockingIOError:
                return
            except OSError:
                # A reset connection means the same as a closed one: the daemon was killed.
                data = b""
            if not data:
                self._record_granter_exit()
                return
            *lines, self._received = (self._received + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                # The number is echoed in reports, so that the daemon knows which of its grants they answer.
                self._granted, self._seen = tuple(message["grant"]), message["number"]
                self._local.restrict_to(self._granted)

    def _report(self) -> None:
        """Send the demand and the slots in use to the granting process if they have changed."""
        uses = sorted(number for slots in self._local.placement().values() for number in slots)
        message = {"wants": self._wanted, "uses": uses, "seen": self._seen}
        # One report at a time: lines must not be mixed on the socket, and only the newest state matters.
        if not self._unsent and message != self._reported:
            self._reported, self._unsent = message, json.dumps(message).encode() + b"\n"
        if not self._unsent or self.granter_exited:
            return
        try:
            self._unsent = self._unsent[self._connection.send(self._unsent) :]
        except BlockingIOError:
            pass  # the socket buffer is full: the rest is sent with the next call
        except OSError:
            self._record_granter_exit()

    def _record_granter_exit(self) -> None:
        """Record that the granting process has exited.

        No job is started; running jobs keep their slots until they end.
        """
        self._granter_exited = True
        self._local.unwatch()
        self._local.restrict_to(())
