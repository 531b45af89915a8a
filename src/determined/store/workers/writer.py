"""A background thread that writes rows to a store in batches and retries until they are committed."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar, cast

from determined.errors import StoreError, StoreUnavailable
from determined.store.rows import LogRow, MetricRow, Row, StatusRow
from determined.store.workers.retries import Retries, RowStore

logger = logging.getLogger("determined.store")


S = TypeVar("S", bound=RowStore)
T = TypeVar("T")

# Limits of the queue, so that an unavailable store cannot exhaust the memory; beyond them `put` blocks.
# The first limit bounds the overhead of many small rows, the second the text of large ones.
_MOST_ROWS = 10_000
_MOST_BYTES = 64 * 2**20
_SECONDS_TOGETHER = 0.2  # rows that arrive within this time share one transaction, which costs a lock and a commit
_SECONDS_BETWEEN_POLLS = 1.0  # a request to stop is noticed within about this time
# For a program that is failing already: its own error should be shown soon, and not after the patience.
_SECONDS_IN_A_HURRY = 3.0


class Writer(Generic[S]):
    """The only user of a store connection: a thread that writes the rows which the program hands over.

    `put` blocks only while the queue is full. `flush` waits until everything put before it is committed. An error that
    is permanent, or that lasts longer than `patience` seconds, is raised by the next call.

    A forked child has no writer thread, and the connection belongs to its parent: there `put` and `query` raise, and
    `flush` and `close` do nothing.
    """

    def __init__(
        self,
        open_store: Callable[[], S],
        *,
        patience: float,
        written: Callable[[list[Row]], None] | None = None,  # called by the thread after each transaction
        check: Callable[[S, list[Row]], None] | None = None,  # likewise, with the store, to query other rows
    ) -> None:
        self._retries = Retries(open_store, patience)
        self._written = written
        self._check = check
        # A forked child inherits this object but not the thread, so it is recognized by its process id.
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)  # the thread waits on it for rows
        self._progress = threading.Condition(self._lock)  # callers wait on it for space in the queue, or for a commit
        self._queue: deque[Row | _Query[S, Any]] = deque()
        self._bytes = 0
        # How many items were put and completed: `flush` waits until the second reaches what the first was at its call.
        self._handed = self._done = 0
        self._hurry = False
        self._closing = False
        self._failure: BaseException | None = None
        # Errors are raised once: `close` in a `finally` block must not replace the error that the program already
        # handles.
        self._failure_told = False
        self._thread: threading.Thread | None = None
        self._watch: Callable[[S], None] | None = None
        self._looked = 0.0
        # Registered here and not when the thread starts: exit handlers run in reverse order, so those that close a run,
        # which are registered later, can still report.
        atexit.register(self._close_at_exit)

    def put(self, row: Row) -> None:
        """Enqueue a row to be written, waiting while the queue is full (back-pressure)."""
        self._refuse_in_a_child()
        size = _size(row)
        with self._lock:
            self._refuse_if_closed()
            # A row above the limit is accepted if the queue is empty; otherwise it would wait forever.
            while len(self._queue) >= _MOST_ROWS or (self._queue and self._bytes + size > _MOST_BYTES):
                self._wait_for_progress()
            self._bytes += size
            self._enqueue(row)

    def query(self, read: Callable[[S], T]) -> T:
        """Run a query in the writer thread after everything put before is committed, and return its result."""
        self._refuse_in_a_child()
        asked = _Query(read)
        with self._lock:
            self._refuse_if_closed()
            self._enqueue(asked)
            while not asked.answered:
                self._wait_for_progress()
        if asked.error is not None:
            raise asked.error
        return asked.answer[0]

    def queued(self, view: Callable[[S], T]) -> T:
        """Return the store, as `view` presents it, for use by any thread of the program.

        Every method call runs in the writer thread as in `query`: after everything put before is committed, and
        retried while the store is unavailable.
        """
        return cast(T, _QueuedCalls(self, view))

    def flush(self) -> None:
        """Wait until everything put before is committed. Raise the error that prevents it."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            target = self._handed
            while self._done < target:
                self._wait_for_progress()
            self._refuse_if_failed()

    @property
    def failed(self) -> bool:
        """Whether an error has ended the writer, so that no more rows can be written."""
        return self._failure is not None

    def watch(self, look: Callable[[S], None]) -> None:
        """Let the thread call `look` about once a second while the writer is open."""
        with self._lock:
            self._watch = look
            self._work.notify()

    def close(self, *, hurry: bool = False) -> None:
        """Write the remaining rows and end the thread. An error that was already raised is not raised again.

        With `hurry`, used when the program is already failing, an unreachable store is waited for only briefly.
        """
        if os.getpid() != self._pid or self._closing:
            return
        if hurry:
            self._retries.limit_patience(_SECONDS_IN_A_HURRY)
        try:
            if not self._failure_told:
                self.flush()
        except BaseException:
            # Interrupted, for example by Ctrl-C: without this, joining the thread below could take the complete
            # patience.
            self._retries.limit_patience(_SECONDS_IN_A_HURRY)
            raise
        finally:
            with self._lock:
                self._closing = True
                self._work.notify()
            if self._thread is not None:
                self._thread.join()
            atexit.unregister(self._close_at_exit)

    def _close_at_exit(self) -> None:
        """Close the writer at the end of a program that did not close its run."""
        try:
            self.close()
        except Exception:
            # Python only prints errors of exit handlers, and does not say what they mean.
            logger.exception("reports that were not written yet are lost")

    def _refuse_in_a_child(self) -> None:
        """Raise `StoreError` in a forked child."""
        if os.getpid() != self._pid:
            raise StoreError(
                f"process {os.getpid()} was forked from {self._pid}, which opened this run: report from there"
            )

    # The following methods must be called with the lock held.

    def _enqueue(self, item: Row | _Query[S, Any]) -> None:
        """Add an item to the queue, and start or wake the thread if necessary."""
        self._queue.append(item)
        self._handed += 1
        if self._thread is None:
            # A daemon, because Python joins other threads before it runs exit handlers, which have to end this one.
            self._thread = threading.Thread(target=self._run, name="determined-store", daemon=True)
            self._thread.start()
        # Only when the thread waits for a first row, or must stop collecting: waking it for every row would be slow.
        elif len(self._queue) in (1, _MOST_ROWS // 2):
            self._work.notify()

    def _wait_for_progress(self) -> None:
        """Wait for the thread to commit or free space, and make it write without collecting more rows."""
        self._refuse_if_failed()
        self._hurry = True
        self._work.notify()
        self._progress.wait()

    def _refuse_if_failed(self) -> None:
        """Raise the error that ended the thread, if any."""
        if self._failure is not None:
            self._failure_told = True
            raise self._failure

    def _refuse_if_closed(self) -> None:
        """Raise if the writer has failed or is closed."""
        self._refuse_if_failed()
        if self._closing:
            raise StoreError("The run has ended: report inside the `with` block of init(), or before close()")

    # The following methods run in the thread.

    def _run(self) -> None:
        """Write batches of rows and answer queries until the writer is closed or fails."""
        try:
            while True:
                item = self._next()
                if item is None:
                    break
                if isinstance(item, _Query):
                    item.run_with(self._retries.run)
                    if item.error is not None and self._retries.store is None:
                        self._failure_told = True  # the caller of `query` gets the error
                        raise item.error  # a store that cannot be opened is not retried
                elif item:
                    self._retries.run(partial(self._write, item))
                    # After the commit, so that sinks never receive a report that the store then loses.
                    if self._written is not None:
                        self._written(item)
                self._notify_progress(1 if isinstance(item, _Query) else len(item))
                self._watch_if_due()
        except BaseException as error:  # noqa: BLE001  (raised by the next call of the program)
            # Under the lock: a caller that has just found no failure would otherwise wait for a progress that never
            # comes.
            with self._lock:
                self._failure = error
                self._progress.notify_all()
        finally:
            self._retries.close()

    def _next(self) -> list[Row] | _Query[S, Any] | None:
        """Return the next work: rows for one transaction, a query, an empty list to call `look`, or None at the end."""
        with self._lock:
            while not self._queue:
                if self._closing:
                    return None
                if not self._work.wait(self._seconds_to_next_watch()):
                    return []
            if not isinstance(self._queue[0], _Query):
                # Rows stay in the queue meanwhile, so the limits of `put` count them.
                self._work.wait_for(self._must_not_wait, _SECONDS_TOGETHER)
            self._hurry = False
            first = self._queue[0]
            if isinstance(first, _Query):
                self._queue.popleft()
                return first
            rows: list[Row] = []
            while self._queue and not isinstance(row := self._queue[0], _Query):
                rows.append(row)
                self._bytes -= _size(row)
                self._queue.popleft()
            # Before the commit: callers can fill the queue again while the transaction is running.
            self._progress.notify_all()  # the queue has space again
            return rows

    def _must_not_wait(self) -> bool:
        """Return whether rows are written at once instead of being collected for a larger transaction."""
        return self._hurry or self._closing or len(self._queue) >= _MOST_ROWS // 2

    def _notify_progress(self, count: int) -> None:
        """Count processed items and wake the threads that wait for them."""
        with self._lock:
            self._done += count
            self._progress.notify_all()

    def _write(self, rows: list[Row], store: S) -> None:
        """Write rows, then call the check if there is one."""
        store.write(_without_old_statuses(rows))
        # Part of the retried action: the rows are written again with it, which changes nothing.
        if self._check is not None:
            self._check(store, rows)

    def _seconds_to_next_watch(self) -> float | None:
        """Return the time until the `watch` function is due; None if there is none."""
        if self._watch is None:
            return None
        return max(0.0, self._looked + _SECONDS_BETWEEN_POLLS - time.monotonic())

    def _watch_if_due(self) -> None:
        """Call the `watch` function if it is due."""
        store = self._retries.store
        if self._watch is None or store is None or self._seconds_to_next_watch():
            return
        try:
            self._watch(store)
        except StoreUnavailable as error:
            logger.debug("%s; looked at again in a second", error)
        self._looked = time.monotonic()


class _QueuedCalls:
    """An object whose methods are those of a store, each run by the thread of a writer; see `Writer.queued`."""

    def __init__(self, writer: Writer[Any], view: Callable[[Any], Any]) -> None:
        self._writer = writer
        self._view = view

    # Resolved in the writer's thread, because only there `view` may use the store.
    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            return self._writer.query(lambda store: getattr(self._view(store), name)(*args))

        return call


class _Query(Generic[S, T]):
    """A query that a caller of `query` waits for."""

    def __init__(self, function: Callable[[S], T]) -> None:
        self._function = function
        self.answer: list[T] = []
        self.error: Exception | None = None
        self.answered = False

    def run_with(self, persist: Callable[[Callable[[S], T]], T]) -> None:
        """Run the query and keep its result or error."""
        try:
            self.answer.append(persist(self._function))
        except Exception as error:  # noqa: BLE001  (raised in the thread that queries)
            self.error = error
        self.answered = True


def _size(row: Row) -> int:
    """Return the approximate size of a row in memory, for the limit of the queue."""
    if isinstance(row, MetricRow):
        return len(row.body)
    return len(row.text) if isinstance(row, LogRow) else 0


def _without_old_statuses(rows: list[Row]) -> list[Row]:
    """Remove statuses that a newer status of the same attempt replaces; each contains all values set so far."""
    newest = {(row.trial_id, row.attempt): row for row in rows if isinstance(row, StatusRow)}
    # Statuses last: they set columns that no other row sets, so their place among the other rows does not matter.
    return [row for row in rows if not isinstance(row, StatusRow)] + list(newest.values())
