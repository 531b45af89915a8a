"""The thread between a run and one service: nobody waits for it, and what fails is tried again."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Sequence

from determined.config.masking import mask_secrets
from determined.sinks.base import Begin, CheckpointReference, End, Event, Known, Report, Sink

logger = logging.getLogger("determined.sinks")

_MOST_EVENTS = 10_000
_MOST_BYTES = 64 * 2**20
_MOST_TOGETHER = 500
_SECONDS_TOGETHER = 1.0  # what comes within this time is sent in one call
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_SECONDS_TO_NOTICE = 1.0
_LONGEST_REASON = 500


class Sender:
    """Hands over events in their order. When too many wait, the oldest reports are dropped, counted and told.

    A process that was forked from the one that made it has no thread: there it does nothing.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._queue: deque[Event] = deque()
        self._bytes = 0
        self._dropped = 0
        self._in_hand = 0  # reports that were taken out of the queue and are not sent yet
        self._reason = ""
        self._deadline: float | None = None
        self._abandoned = False  # a thread that writes while the interpreter ends can bring it down
        self._thread: threading.Thread | None = None
        self._known: Known = {}

    def put(self, event: Event) -> None:
        """Never waits, never fails."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._deadline is not None:
                return
            full = len(self._queue) >= _MOST_EVENTS or self._bytes + _size(event) > _MOST_BYTES
            first_drop = full and self._drop_oldest_report() and self._dropped == 1
            self._queue.append(event)
            self._bytes += _size(event)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"determined-sink-{self._sink.name}", daemon=True
                )
                self._thread.start()
            elif len(self._queue) == 1:
                self._work.notify()
        if first_drop:
            logger.warning(
                "%s is too slow, or away: the oldest of more than %d reports are not sent to it (the store has all)",
                self._sink.name,
                len(self._queue),
            )

    def stop(self, deadline: float) -> None:
        """From now on nothing is taken; what waits may be sent until then."""
        with self._lock:
            self._deadline = deadline
            self._work.notify()

    def join(self) -> None:
        """Return when all is sent, or at the deadline; say what was not sent."""
        if self._thread is None or os.getpid() != self._pid:
            return
        assert self._deadline is not None
        self._thread.join(max(0.0, self._deadline - time.monotonic()))
        with self._lock:
            unsent = self._dropped + self._in_hand + sum(isinstance(event, Report) for event in self._queue)
            late = self._thread.is_alive()
            reason = self._reason or ("it did not answer in time" if late else "it was too slow" if unsent else "")
        if reason:
            logger.warning("%d reports were not sent to %s: %s (the store has them)", unsent, self._sink.name, reason)
        if late:
            self._abandon()

    def _abandon(self) -> None:
        self._abandoned = True
        try:
            self._sink.abandon()
        except Exception:
            logger.exception("what the client of %s started may hold up the end of this process", self._sink.name)
        assert self._thread is not None
        self._thread.join(_SECONDS_TO_NOTICE)

    def _drop_oldest_report(self) -> bool:
        for position, event in enumerate(self._queue):
            if isinstance(event, Report):
                del self._queue[position]
                self._bytes -= _size(event)
                self._dropped += 1
                return True
        return False

    # What follows is called by the thread.

    def _run(self) -> None:
        while (events := self._next()) is not None:
            if not self._deliver(events):
                return
            with self._lock:
                self._in_hand = 0

    def _next(self) -> list[Event] | None:
        """A beginning, an end, or what was reported between them; None when all is sent and nothing will come."""
        with self._lock:
            while not self._queue:
                if self._deadline is not None:
                    return None
                self._work.wait()
            if isinstance(self._queue[0], (Report, CheckpointReference)):
                self._work.wait_for(lambda: self._deadline is not None, _SECONDS_TOGETHER)
            events = [self._take()]
            while self._queue and _belong_together(events[-1], self._queue[0]) and len(events) < _MOST_TOGETHER:
                events.append(self._take())
            self._in_hand = sum(isinstance(event, Report) for event in events)
            return events

    def _take(self) -> Event:
        event = self._queue.popleft()
        self._bytes -= _size(event)
        return event

    def _deliver(self, events: list[Event]) -> bool:
        """Whether the service has them; once the run is closing, a failure is the last one."""
        pause, failed = _FIRST_PAUSE, False
        while True:
            closing = self._deadline is not None
            try:
                self._call(events)
            except Exception as error:  # noqa: BLE001  (a service may fail in any way; training goes on)
                self._reason = _in_one_line(error)
                if not failed and not self._abandoned:
                    failed = True
                    logger.warning(
                        "nothing can be sent to %s: %s; it is tried again, and training goes on",
                        self._sink.name,
                        self._reason,
                    )
                if closing:
                    return False
                with self._lock:
                    self._work.wait_for(lambda: self._deadline is not None, pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                if failed:
                    logger.warning("%s is back", self._sink.name)
                self._reason = ""
                return True

    def _call(self, events: list[Event]) -> None:
        first = events[0]
        if isinstance(first, Begin):
            self._known = self._sink.open(first)
        elif isinstance(first, End):
            self._sink.end(first.state)
        else:
            self._send([event for event in events if isinstance(event, (Report, CheckpointReference))])

    def _send(self, events: list[Report | CheckpointReference]) -> None:
        new = [event for event in events if not isinstance(event, Report) or self._is_new(event)]
        if new:
            self._sink.send(new)

    def _is_new(self, report: Report) -> bool:
        return report.steps_completed > self._known.get(report.group, -1)


def close_all(senders: Sequence[Sender], seconds: float) -> None:
    """Give all of them the same time to send what is left."""
    deadline = time.monotonic() + seconds
    for sender in senders:
        sender.stop(deadline)
    for sender in senders:
        sender.join()


def _belong_together(one: Event, other: Event) -> bool:
    return not isinstance(one, (Begin, End)) and not isinstance(other, (Begin, End))


def _size(event: Event) -> int:
    return len(event.body) if isinstance(event, Report) else 0


def _in_one_line(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return str(mask_secrets(text))[:_LONGEST_REASON]
