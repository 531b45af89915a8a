"""Reads the requests to stop a run from its store."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from determined.core.supervision.attempts import Attempts, RecordedRun, StoreOutOfReach
from determined.core.supervision.log_once import LogOnce
from determined.stop_request import StopRequest
from determined.store.heartbeats import SECONDS_BETWEEN_HEARTBEATS
from determined.store.rows import BegunAttempt, HeartbeatRow
from determined.store.workers.worker_store import WorkerStore
from determined.store.workers.writer import Writer

if TYPE_CHECKING:
    from determined.store.records import Request

_SECONDS_BETWEEN_TRIES = 1.0  # between attempts to find the run whose stop requests a rank wants to read


class StopRequests:
    """The requests to stop a run, from the store and from inside its process. The first one is kept."""

    def __init__(
        self,
        run: RecordedRun,
        writer: Writer[WorkerStore],
        store: WorkerStore,
        attempts: Attempts,
        *,
        current_attempt: Callable[[], BegunAttempt | None],
        log_once: LogOnce,
    ) -> None:
        self._managed = run.managed
        self._writer = writer
        self._store = store
        self._attempts = attempts
        self._current_attempt = current_attempt
        self._log_once = log_once
        self._request: StopRequest | None = None
        self._next_try_to_listen = 0.0
        self._found: BegunAttempt | None = None  # the attempt whose requests a rank reads without having reported
        self.listens = run.member.is_chief
        self._is_standalone_chief = run.member.is_chief and run.managed is None
        self._next_beat = time.monotonic() + SECONDS_BETWEEN_HEARTBEATS  # the start of the attempt is the first

    @property
    def request(self) -> StopRequest | None:
        """The request to stop, if there is one."""
        return self._request

    def add(self, request: StopRequest) -> None:
        """Keep a request unless there is an earlier one."""
        # One assignment and no lock, because signal handlers call this.
        self._request = self._request or request

    def watch(self) -> None:
        """Let the writer's thread read requests about once a second."""
        self._writer.watch(self._look)

    def listen(self) -> None:
        """Start to read stop requests on a rank other than the chief.

        If the attempt has not begun, do nothing; a later call tries again.
        """
        if self.listens or time.monotonic() < self._next_try_to_listen:
            return
        self._found = self._attempts.find()
        if self._found is None:  # no rank has begun the attempt yet, or the store is on another machine
            # The attempt of the chief appears within a moment, but this is called for every batch.
            self._next_try_to_listen = time.monotonic() + _SECONDS_BETWEEN_TRIES
            try:
                self._attempts.check_reach()
            except StoreOutOfReach as error:
                self._log_once(logging.WARNING, f"requests to stop do not reach this rank: {error}")
            return
        self.listens = True
        self.read(self._store)
        self.watch()

    def read(self, store: WorkerStore) -> float:
        """Read new requests, and return the goal of the trial; infinite if it trains to its end.

        Raise StoreError if the trial was started again elsewhere.
        """
        goal = math.inf
        requests: list[Request] = []
        attempt = self._current_attempt() or self._found
        after = 0 if attempt is None else attempt.last_request
        if self._managed is not None:
            decision = self._managed.decision(store, after)
            goal = goal if decision.goal is None else decision.goal
            requests = decision.requests
        # Nothing can follow the first request, so no more queries are made.
        elif attempt is not None and self._request is None:
            requests = store.requests(attempt.trial_id, after)
        if attempt is not None:  # otherwise some of them may be to an earlier start of the trial
            for request in requests:
                # Killing is up to the runner; the worker itself handles the request like a cancel.
                self.add("cancel" if request.kind == "kill" else request.kind)
        return goal

    def _look(self, store: WorkerStore) -> None:
        """Read what concerns this run, and show that it is running. Called by the writer's thread."""
        self._beat_if_due(store)
        self.read(store)

    def _beat_if_due(self, store: WorkerStore) -> None:
        """Record every few seconds that this process is running, if it is the chief of a standalone run."""
        attempt = self._current_attempt()
        if not self._is_standalone_chief or attempt is None or time.monotonic() < self._next_beat:
            return
        self._next_beat = time.monotonic() + SECONDS_BETWEEN_HEARTBEATS
        store.write([HeartbeatRow(attempt.trial_id, attempt.number, time.time())])
