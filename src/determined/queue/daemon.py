"""The queue daemon: serves the queue until it is empty or a signal arrives, and publishes its status."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from types import FrameType

from determined.engines.slots import Slots
from determined.queue.daemon_store import DaemonStore
from determined.queue.dispatcher import Dispatcher
from determined.queue.files import QueueFiles, daemon_start_lock
from determined.queue.status import Status, write_status
from determined.sentences import counted
from determined.store.store import Store

_TICK = 0.5  # seconds; the store sends no notification of new entries, so it is polled


class Daemon:
    """The process that serves a queue, in one thread. Between two ticks it waits for messages of the runners."""

    def __init__(
        self,
        store_place: str,
        files: QueueFiles,
        lock: int,
        *,
        slots: Slots,
        idle_seconds: float,
        say: Callable[[str], None],
    ) -> None:
        self._store_place, self._files = store_place, files
        self._lock: int | None = lock
        self._slots, self._idle_seconds, self._say = slots.count, idle_seconds, say
        self._store = DaemonStore(store_place, say)
        self._dispatcher = Dispatcher(store_place, self._store, slots, say)
        self._signal: int | None = None
        # The start for people, by the clock; idle time by the monotonic one, which cannot jump.
        self._since, self._last_busy = time.time(), time.monotonic()
        self._status: Status | None = None
        self._status_failed = False  # the status file could not be written, which was logged once

    def run(self) -> int:
        """Serve the queue until it has been empty for a while or a signal arrives. Return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup det queue serve` outlives its terminal
                signal.signal(number, self._remember_signal)
        try:
            self._store.open()  # not through `query`, which would retry: fail at once if the store cannot be opened
            self._say(f"process {os.getpid()} serves the queue with {counted(self._slots, 'slot')}")
            while self._signal is None:
                if self._store.was_replaced():
                    self._say(f"the store file {self._store_place} was replaced: reading the new one")
                    self._store.reopen()
                    # After the new store is open: its queue is read in the next step.
                    self._dispatcher.reset()
                self._dispatcher.update()
                self._publish_status()
                if self._is_idle() and self._store.query(self._end_if_empty, without_limit=False) is True:
                    self._say("the queue is empty: exiting")
                    return 0
                self._dispatcher.wait_for_messages(_TICK)
            self._shut_down()
            return 128 + self._signal
        finally:
            self._unlock()

    def _remember_signal(self, number: int, frame: FrameType | None) -> None:
        """Signal handler: remember the signal. The loop handles it within one tick, between two transactions."""
        self._signal = number

    def _is_idle(self) -> bool:
        """Return whether there has been nothing to do for the idle time."""
        # An unavailable store may hold entries, so the daemon waits for it.
        if not self._dispatcher.is_empty or self._store.is_unavailable:
            self._last_busy = time.monotonic()
            return False
        return time.monotonic() - self._last_busy >= self._idle_seconds

    def _end_if_empty(self, store: Store) -> bool:
        """Release the daemon's lock if the queue is still empty, and return whether it was.

        It holds the start lock meanwhile, so no process can add an experiment and find this daemon in between.
        """
        with daemon_start_lock(self._files):
            # A store that was just replaced has another queue, which has not been read yet.
            if self._store.was_replaced() or self._dispatcher.has_work(store):
                return False
            self._unlock()
            return True

    def _unlock(self) -> None:
        """Delete the status file and release the daemon's lock. Afterwards another process may become the daemon."""
        if self._lock is not None:
            # In this order: once the lock is free, the status file may be that of the next daemon.
            self._files.status.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None
            self._dispatcher.close()

    def _shut_down(self) -> None:
        """Let all runners pause and wait for them; their experiments stay in the queue.

        A second signal ends the wait.
        """
        assert self._signal is not None
        name, self._signal = signal.Signals(self._signal), None
        # Published first, so that commands which add an experiment know that it will not be started now.
        self._publish_status(leaving=True)
        runners = counted(self._dispatcher.runner_count, "runner")
        self._say(f"{name.name}: asked {runners} to let their trials save and to exit")
        self._dispatcher.pause_all()
        # A second signal ends the wait: the runners notice the closed connection and save without the daemon.
        while self._dispatcher.runner_count and self._signal is None:
            self._dispatcher.wait_for_exits()
            self._publish_status(leaving=True)
        # For the exit code, by which a service manager sees that it was stopped.
        self._signal = name

    def _publish_status(self, *, leaving: bool = False) -> None:
        """Write the status file if the status has changed."""
        status = Status(os.getpid(), self._since, self._slots, self._dispatcher.running(), leaving)
        if status == self._status:
            return
        try:
            write_status(self._files, status)
        except OSError as error:  # for example a full disk; retried at the next tick
            if not self._status_failed:
                self._say(f"the status for `det queue` could not be written: {error}")
            self._status_failed = True
        else:
            self._status, self._status_failed = status, False
