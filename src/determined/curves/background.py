"""Compute the statistics of trials in a thread, newest trials first, so that a table of runs need not wait for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from determined.curves.cache import CurveCache
from determined.curves.trials import CurveReader
from determined.errors import StoreError
from determined.store.store import Store


class SummaryThread:
    """A thread that fills a cache with the statistics of the trials that it is asked for."""

    def __init__(self, open_store: Callable[[], Store], cache: CurveCache) -> None:
        self._open_store = open_store
        self._cache = cache
        self._wanted: set[int] = set()
        self._changed = threading.Condition()
        self._busy = False
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="summaries", daemon=True)
        self.trouble: str | None = None  # why statistics are not computed at present

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask(self, trial_ids: Iterable[int]) -> None:
        """Have the statistics of these trials computed, instead of those that were asked for before."""
        with self._changed:
            self._wanted = set(trial_ids)
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until everything that was asked for is computed, or has failed."""
        with self._changed:
            self._changed.wait_for(lambda: not self._wanted and not self._busy)

    def stop(self) -> None:
        """End the thread after the trial that it is reading."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        store: Store | None = None
        while (trial_id := self._next()) is not None:
            try:
                # A store may be used by one thread at a time, so this thread has its own.
                store = store or self._open_store()
                CurveReader(store, self._cache).summarize(trial_id)
                self.trouble = None
            except StoreError as error:
                # The page asks again. A store that was replaced or lost its server is opened again then.
                self.trouble = str(error)
                _close(store)
                store = None
        _close(store)

    def _next(self) -> int | None:
        """Wait for a trial to be asked for, and return the newest; None at the end."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._wanted or self._stopping)
            if self._stopping:
                return None
            newest = max(self._wanted)
            self._wanted.discard(newest)
            self._busy = True
            return newest


def _close(store: Store | None) -> None:
    if store is not None:
        store.close()
