"""A background thread that sends the events of a run to one service and retries failed calls."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence

from determined.config.secrets.masking import mask_secrets
from determined.sentences import counted
from determined.sinks.base import Begin, CheckpointReference, End, Event, Known, Report, Sink
from determined.sinks.event_queue import MOST_EVENTS, Backlog

logger = logging.getLogger("determined.sinks")

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # exponential backoff; a service that is down for long is asked once a minute
_MOST_REFUSALS = 3  # by a service that is reachable: after that the events are considered the cause
# Time for the thread to see that its client was stopped, before the interpreter shuts down.
_SECONDS_TO_NOTICE = 1.0
_LONGEST_REASON = 500  # a client may quote a complete response of the server


class Sender:
    """Sends events in order and retries each until the service has accepted it.

    In a forked child there is no thread, so calls do nothing there.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._pid = os.getpid()
        self._backlog = Backlog()
        self._thread: threading.Thread | None = None
        self._begin: Begin | None = None
        self._known: Known = {}  # the last steps that the service had when this attempt began
        self._sent: dict[str, int] = {}  # the last steps that the service has accepted since
        self._received: Known = {}  # the last steps after a failed call, a part of which may have arrived
        self._reason = ""  # why the last call failed
        self._refusal = ""  # why the service rejected a report
        self._abandoned = False  # no more logging: a thread that writes while the interpreter exits can crash it

    def put(self, event: Event) -> None:
        """Enqueue an event, without blocking and without raising. Must be called by one thread at a time."""
        if os.getpid() != self._pid:
            return
        if self._backlog.put(event):
            self._warn(f"too slow or unavailable; of more than {MOST_EVENTS} waiting reports the oldest are dropped")
        if self._thread is None:
            self._start()

    def stop(self, deadline: float) -> None:
        """Accept no more events. The waiting ones may be sent until the deadline."""
        if os.getpid() == self._pid:  # in a forked child the lock may be held forever by a thread that was not copied
            self._backlog.close(deadline)

    def join(self) -> None:
        """Wait until everything is sent, or for the deadline, and log what was not sent."""
        if self._thread is None or os.getpid() != self._pid:
            return
        self._thread.join(self._backlog.seconds_left())
        late, unsent = self._thread.is_alive(), self._backlog.unsent()
        reason = self._reason or ("it did not answer in time" if late else "") or self._refusal
        if unsent or reason:
            what = (
                f"{counted(unsent, 'report was', 'reports were')} not sent to"
                if unsent
                else "the end of the run was not reported to"
            )
            logger.warning(
                "%s %s: %s (all reports are in the store)", what, self._sink.name, reason or "it was too slow"
            )
        if late:
            self._abandon()

    def _start(self) -> None:
        """Start the thread; if that is impossible, disable the sink with a warning."""
        # A daemon, because a service that does not answer must not keep the program from exiting.
        thread = threading.Thread(target=self._run, name=f"determined-sink-{self._sink.name}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the limit on threads, or the interpreter is shutting down
            self._backlog.close(time.monotonic())
            self._warn(f"disabled: {error}")
        else:
            self._thread = thread

    def _abandon(self) -> None:
        """Give up waiting for the thread and stop what the service's client has started."""
        self._abandoned = True
        try:
            self._sink.abandon()
        except Exception:
            logger.exception("the client of %s could not be stopped; this process may exit late", self._sink.name)
        assert self._thread is not None
        self._thread.join(_SECONDS_TO_NOTICE)

    def _warn(self, text: str) -> None:
        """Log a warning, unless the interpreter may be shutting down."""
        if not self._abandoned:
            logger.warning("%s: %s", self._sink.name, text)

    # The following methods run in the thread.

    def _run(self) -> None:
        """Send events until the queue is closed or the sink is given up. Runs in the thread."""
        while (events := self._backlog.next()) is not None:
            if not self._deliver(events):
                return

    def _deliver(self, events: list[Event]) -> bool:
        """Send events, retrying with backoff. Return whether to continue with the next ones.

        Once the run is closing, there is one more attempt, without a pause.
        """
        pause, tries, refusals = _FIRST_PAUSE, 0, 0
        while True:
            closing, answers = self._backlog.closing, False
            try:
                # After a failure the connection may be lost, and a part of the events may have arrived: opening again
                # shows which.
                if tries and self._begin is not None and not isinstance(events[0], Begin):
                    self._received = self._sink.open(self._begin)
                    answers = True
                self._call(events)
            except Exception as error:  # noqa: BLE001  (a service may fail in any way; training must continue)
                tries, refusals = tries + 1, refusals + answers
                self._reason = _in_one_line(error)
                if tries == 1:
                    self._warn(f"upload failed ({self._reason}). Retrying; training continues.")
                # The service answered to `open`, so it is the events that it rejects.
                if answers and (closing or refusals >= _MOST_REFUSALS):
                    self._drop_rejected_events(events)
                    return True
                # At the end there is one more attempt, because the failure may have been a moment ago.
                if self._abandoned or (closing and (tries > 1 or isinstance(events[0], Begin))):
                    return False
                if not closing:
                    self._backlog.pause(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                if tries:
                    self._warn("available again")
                self._reason = ""
                self._note_sent(events)
                self._backlog.done()
                return True

    def _call(self, events: Sequence[Event]) -> None:
        """Make the call of the sink for these events. Reports that the service already has are skipped."""
        first = events[0]
        if isinstance(first, Begin):
            self._begin = first
            self._known = self._sink.open(first)
            self._sent = dict(self._known)
        elif isinstance(first, End):
            self._sink.end(first.state)
        else:
            new = [
                event
                for event in events
                if isinstance(event, CheckpointReference) or (isinstance(event, Report) and self._is_new(event))
            ]
            if new:
                self._sink.send(new)

    def _is_new(self, report: Report) -> bool:
        """Return whether the service does not have a report yet.

        Several reports of the same step are all new. Those that an earlier attempt or a failed call has delivered are
        not.
        """
        step, group = report.steps_completed, report.group
        # -1, because steps begin at 0.
        arrived = self._sent.get(group, -1) < step <= self._received.get(group, -1)
        return step > self._known.get(group, -1) and not arrived

    def _note_sent(self, events: Sequence[Event]) -> None:
        """Record the last steps that the service has accepted."""
        for event in events:
            if isinstance(event, Report):
                self._sent[event.group] = max(self._sent.get(event.group, -1), event.steps_completed)
        self._received = {}

    def _drop_rejected_events(self, events: list[Event]) -> None:
        """Send rejected events one by one and drop those that are rejected again.

        The service is reachable, so one bad event must not block the others.
        """
        refused = 0
        for event in events:
            try:
                self._call([event])
            except Exception as error:  # noqa: BLE001  (logged below)
                refused += isinstance(event, Report)
                self._refusal = _in_one_line(error)
        were = "it was" if refused == 1 else "they were"
        self._warn(f"rejected {counted(refused, 'report')}; {were} dropped: {self._refusal or self._reason}")
        self._reason = ""
        self._note_sent(events)
        self._backlog.done(refused)


def close_all(senders: Sequence[Sender], seconds: float) -> None:
    """Close all senders, which share the same time to send what is left."""
    deadline = time.monotonic() + seconds
    # All are closed first, so that they use the same time and not one after another.
    for sender in senders:
        sender.stop(deadline)
    for sender in senders:
        sender.join()


def _in_one_line(error: Exception) -> str:
    """Return an error as one line without secrets."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return str(mask_secrets(text))[:_LONGEST_REASON]
