"""End training early: the batch in progress is finished and saved, and all ranks stop after the same one.

A signal, a time limit or a request to pause only sets a flag, which the loop reads after every batch. With several
ranks the one that got it leaves a note in the ranks' store; a thread on each rank looks for that note now and then.
Then every rank writes down how many batches it has done, and all continue to one more than the largest of these
numbers: no rank has passed it, because from the moment a rank sees the flag its loop waits for the answer before it
begins another batch.

A second SIGINT stops without saving: it raises KeyboardInterrupt wherever the program is. Other signals never do.
"""

from __future__ import annotations

import enum
import itertools
import math
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType
from typing import Any

from determined.core import DistributedContext
from determined.errors import DistributedError
from determined.pytorch.progress import say

_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_FOR_AN_ANSWER = 20
_NOTE = "stop/note"


class Why(enum.Enum):
    """Why training ends early, and with which code the program ends then; with None, `fit` returns."""

    SIGTERM = 143
    SIGINT = 130
    SIGHUP = 129
    TIME_LIMIT = 124
    REQUEST = None

    @property
    def described(self) -> str:
        return {Why.TIME_LIMIT: "its time limit", Why.REQUEST: "a request"}.get(self, f"the signal {self.name}")


_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_fits = itertools.count()


def _store_of_this_fit(distributed: DistributedContext) -> Any:
    """Notes of an earlier fit of this program are not ours."""
    store = distributed.shared_store()
    if store is None:
        return None
    from torch.distributed.distributed_c10d import PrefixStore

    return PrefixStore(f"fit/{next(_fits)}", store)


class Stopping:
    """`raised` says that training is to end now; `stop_at` then says after which batch.

    `abandoned` says that a second SIGINT came: nothing is saved or waited for any more.
    """

    def __init__(
        self,
        distributed: DistributedContext,
        batches_done: Callable[[], int],
        *,
        requested: Callable[[], bool],
        ends: float = math.inf,
    ) -> None:
        self._distributed = distributed
        self._batches_done = batches_done
        self._requested = requested
        self._ends = ends  # by the monotonic clock
        self._store = _store_of_this_fit(distributed)
        self._agreed: int | None = None
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()  # its `put` may be called in a signal handler
        self._done = False
        self._interrupted = False  # a SIGINT came
        self._lock = threading.Lock()
        self._published = False
        self._decided = False  # all ranks know how training ends: too late for a signal to change it
        self._too_late: int | None = None
        self.raised = False
        self.abandoned = False
        self.why: Why | None = None

    @contextmanager
    def listening(self) -> Iterator[Stopping]:
        """Take SIGTERM, SIGINT and SIGHUP while training."""
        watcher = threading.Thread(target=self._watch, name="determined-stop", daemon=True)
        watcher.start()
        previous = self._install()
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            if self._too_late is not None:
                os.kill(os.getpid(), self._too_late)  # for the handler that is in place now
            self._done = True
            self._wake.put(None)
            watcher.join(2 * _SECONDS_BETWEEN_LOOKS)  # the store of a frozen host never answers

    def ask(self, why: Why) -> None:
        """Ask for an end of training; safe in a signal handler.

        The first reason stays, but a signal replaces a request: after a request the program continues behind `fit`,
        after a signal it must end.
        """
        if not self._decided:
            self.why = why if self.why in (None, Why.REQUEST) else self.why
            self.raised = True
            self._wake.put(None)

    def share_reason(self) -> None:
        """Let every rank know the reason that any of them has, so that all end with the same code."""
        self._decided = True
        reasons = [why for why in self._distributed.allgather(self.why) if why is not None]
        self.why = next((why for why in reasons if why is not Why.REQUEST), reasons[0] if reasons else None)

    def stop_at(self) -> int:
        """The number of batches after which every rank stops: asked for by the loop once the flag is raised."""
        if self._store is None:
            return self._batches_done()
        if self._agreed is None:
            self._publish()
            self._agreed = 1 + max(self._counts_of_all_ranks())
        return self._agreed

    def _counts_of_all_ranks(self) -> list[int]:
        """Ranks answer from their threads, within a moment: one that does not is dead or frozen."""
        keys = [f"stop/done/{rank}" for rank in range(self._distributed.size)]
        counts: list[int] = []
        silent: list[int] = []

        def ask() -> None:
            try:
                self._store.wait(keys, timedelta(seconds=_SECONDS_FOR_AN_ANSWER))
                counts.extend(int(self._store.get(key)) for key in keys)
            except RuntimeError:
                silent.extend(rank for rank, key in enumerate(keys) if not self._store.check([key]))

        # In a thread, because the store of a frozen host never answers.
        asking = threading.Thread(target=ask, name="determined-stop-counts", daemon=True)
        asking.start()
        asking.join(_SECONDS_FOR_AN_ANSWER + 5)
        if not counts:
            who = (
                f"rank {', '.join(map(str, silent))}" if silent else "the chief (rank 0), which keeps the ranks' notes,"
            )
            raise DistributedError(
                f"{who} did not answer within {_SECONDS_FOR_AN_ANSWER} s when asked to stop: dead or frozen"
            )
        return counts

    def _install(self) -> dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}
        previous: dict[int, Any] = {}
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            # A handler of the program's own stays in charge; None is one that was not installed from Python.
            if handler in (signal.SIG_DFL, signal.default_int_handler) or _is_of_async_cell(handler):
                previous[number] = handler
                signal.signal(number, self._handle)
        return previous

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and (self._interrupted or self._decided):
            self.abandoned = not self._decided
            raise KeyboardInterrupt
        if self._decided:
            self._too_late = number
        self._interrupted |= number == signal.SIGINT
        self.ask(Why[signal.Signals(number).name])

    def _watch(self) -> None:
        """Look at the clock and for requests (chief); share the reason with the other ranks."""
        while True:
            with suppress(queue.Empty):
                self._wake.get(timeout=_SECONDS_BETWEEN_LOOKS)
            if self._done:
                return
            if self._distributed.rank == 0:
                if time.monotonic() >= self._ends:
                    self.ask(Why.TIME_LIMIT)
                if self._requested():
                    self.ask(Why.REQUEST)
            try:
                if self._store is not None and not self.raised and self._store.check([_NOTE]):
                    self.raised = True  # before the count is read: from here on the loop waits for the answer
                if self.raised:
                    self._publish()
                    self._announce()
                    return
            except RuntimeError:
                return  # the store is gone with its host: the next collective says so, naming the rank

    def _announce(self) -> None:
        """Print at once that training is about to end: until the batch is finished and saved nothing else is shown.

        In this thread, because in a signal handler the main thread may be in the middle of writing to the stream.
        """
        why = self.why or Why[self._store.get(_NOTE).decode()]  # another rank's reason is in its note
        if self._distributed.rank != 0 or why is Why.REQUEST:
            return
        again = " (Ctrl-C again: stop without saving)" if why is Why.SIGINT else ""
        say(f"Stopping because of {why.described}: saving a checkpoint …{again}")

    def _publish(self) -> None:
        """Leave the note, and write down how far this rank is. Once, whether the loop or the thread comes first."""
        if self._store is None:
            return
        with self._lock:
            if self._published:
                return
            if self.why is not None:
                self._store.set(_NOTE, self.why.name)
            self._store.set(f"stop/done/{self._distributed.rank}", str(self._batches_done()))
            self._published = True


def _is_of_async_cell(handler: Any) -> bool:
    """Return whether Jupyter takes interrupts for a cell with `await`: it cancels a task, and would not end `fit`."""
    return str(getattr(handler, "__module__", "")).partition(".")[0] == "ipykernel"
