"""A bounded queue of events that wait to be sent to a service."""

from __future__ import annotations

import threading
import time
from collections import deque

from determined.sinks.base import Begin, CheckpointReference, End, Event, Report

# As for the store's writer: bounds the memory while a service is unavailable.
MOST_EVENTS = 10_000
MOST_BYTES = 64 * 2**20
_MOST_TOGETHER = 500  # keeps a call, and what has to be repeated after a failure, small
_SECONDS_TOGETHER = 1.0  # events that arrive within this time are sent in one call


class Backlog:
    """Events in order, filled by one thread and emptied by another. When it is full, the oldest reports are dropped."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._dropped = 0
        self._in_hand = 0  # reports that were taken out and are not confirmed by `done` yet
        self._deadline: float | None = None

    @property
    def closing(self) -> bool:
        """Whether no more events will be added."""
        return self._deadline is not None

    def put(self, event: Event) -> bool:
        """Add an event. Return whether this was the first time that a report had to be dropped for it."""
        with self._changed:
            if self._deadline is not None:
                return False
            before = self._dropped
            # Beginnings, ends and checkpoints are kept: there are few of them, and without them a service shows wrong
            # data.
            while len(self._events) >= MOST_EVENTS or self._bytes + _size(event) > MOST_BYTES:
                if not self._drop_oldest_report():
                    break
            self._events.append(event)
            self._bytes += _size(event)
            # Only when the thread waits for a first event or for a full call: waking it for every report would be
            # slow.
            if len(self._events) in (1, _MOST_TOGETHER):
                self._changed.notify()
            return before == 0 and self._dropped > 0

    def close(self, deadline: float) -> None:
        """Accept no more events. The waiting ones may be sent until the deadline."""
        with self._changed:
            self._deadline = deadline
            self._changed.notify()

    def seconds_left(self) -> float:
        """Return the time that is left to send the events after `close`."""
        return 0.0 if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def next(self) -> list[Event] | None:
        """Wait for events and take out those for one call; None when all were taken and no more will come.

        The result is a single beginning or end, or the reports and checkpoints between them.
        """
        with self._changed:
            while not self._events:
                if self._deadline is not None:
                    return None
                self._changed.wait()
            if isinstance(self._events[0], (Report, CheckpointReference)):
                # Collected for a moment, because each call is a request over the network.
                self._changed.wait_for(lambda: self.closing or len(self._events) >= _MOST_TOGETHER, _SECONDS_TOGETHER)
            events = [self._take()]
            while self._events and _can_be_sent_together(events[-1], self._events[0]) and len(events) < _MOST_TOGETHER:
                events.append(self._take())
            self._in_hand = _reports(events)
            return events

    def done(self, refused: int = 0) -> None:
        """Confirm the events that were taken last. `refused` of their reports were rejected by the service."""
        with self._changed:
            self._in_hand = 0
            self._dropped += refused

    def pause(self, seconds: float) -> None:
        """Wait for this time, or until the backlog is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self.closing, seconds)

    def unsent(self) -> int:
        """Return the number of reports that the service has not received."""
        with self._changed:
            return self._dropped + self._in_hand + _reports(self._events)

    def _drop_oldest_report(self) -> bool:
        """Drop the oldest report to make space; return whether there was one."""
        # From the front, where the oldest report is nearly always found at once.
        for position, event in enumerate(self._events):
            if isinstance(event, Report):
                del self._events[position]
                self._bytes -= _size(event)
                self._dropped += 1
                return True
        return False

    def _take(self) -> Event:
        """Remove and return the oldest event."""
        event = self._events.popleft()
        self._bytes -= _size(event)
        return event


def _can_be_sent_together(one: Event, other: Event) -> bool:
    """Return whether two events can be sent in one call."""
    return not isinstance(one, (Begin, End)) and not isinstance(other, (Begin, End))


def _reports(events: list[Event] | deque[Event]) -> int:
    return sum(isinstance(event, Report) for event in events)


def _size(event: Event) -> int:
    """Return the approximate size of an event in memory."""
    return len(event.body) if isinstance(event, Report) else 0
