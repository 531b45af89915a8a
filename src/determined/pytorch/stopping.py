"""One way to end training early: the batch in progress is finished, and all ranks stop after the same one.

Whoever wants it (a signal, a time limit, a request to pause) only sets a flag, which the loop looks at after every
batch. With several ranks the one that is told leaves a note in the ranks' store; a thread on each rank looks for that
note now and then. Then every rank writes down how many batches it has done, and all go on to one more than the largest
of these numbers: nobody has passed it, since from the moment a rank sees the flag its loop waits for the answer before
it begins another batch.
"""

from __future__ import annotations

import enum
import itertools
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Any

from determined.core import DistributedContext
from determined.errors import DistributedError

_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_FOR_AN_ANSWER = 20
_NOTE = "stop/note"


class Why(enum.Enum):
    """Why training ends early, and with which code the program ends then; with None, `fit` returns."""

    SIGTERM = 143
    SIGINT = 130
    TIME_LIMIT = 124
    REQUEST = None

    @property
    def described(self) -> str:
        return {Why.TIME_LIMIT: "its time limit", Why.REQUEST: "a request"}.get(self, f"the signal {self.name}")


_fits = itertools.count()


def _store_of_this_fit(distributed: DistributedContext) -> Any:
    """Notes of an earlier fit of this program are not ours."""
    store = distributed.shared_store()
    if store is None:
        return None
    from torch.distributed.distributed_c10d import PrefixStore

    return PrefixStore(f"fit/{next(_fits)}", store)


class Stopping:
    """`raised` says that somebody wants training to end now; `stop_at` then says after which batch."""

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
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._published = False
        self._decided = False  # all ranks know how training ends: too late for a signal to change it
        self._too_late: int | None = None
        self.raised = False
        self.why: Why | None = None

    @contextmanager
    def listening(self) -> Iterator[Stopping]:
        """Take SIGTERM and SIGINT while training; a second SIGINT interrupts at once, as ever."""
        watcher = threading.Thread(target=self._watch, name="determined-stop", daemon=True)
        watcher.start()
        previous = self._install()
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            if self._too_late is not None:
                os.kill(os.getpid(), self._too_late)  # for whoever has the say now
            self._done.set()
            watcher.join(2 * _SECONDS_BETWEEN_LOOKS)  # the store of a frozen host never answers

    def ask(self, why: Why) -> None:
        """Ask for an end of training; the first reason stays. Safe in a signal handler."""
        if not self._decided:
            self.why = self.why or why
            self.raised = True

    def share_reason(self) -> None:
        """Let every rank know the reason that any of them has, so that all end with the same code."""
        self._decided = True
        reasons = [why for why in self._distributed.allgather(self.why) if why is not None]
        self.why = reasons[0] if reasons else None

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
        for number in (signal.SIGTERM, signal.SIGINT):
            handler = signal.getsignal(number)
            # A handler of the program's own stays in charge; None is one that was not installed from Python.
            if handler in (signal.SIG_DFL, signal.default_int_handler):
                previous[number] = handler
                signal.signal(number, self._handle)
        return previous

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and (self.raised or self._decided):
            raise KeyboardInterrupt
        if self._decided:
            self._too_late = number
        self.ask(Why[signal.Signals(number).name])

    def _watch(self) -> None:
        """Look at the clock and for requests (chief); tell the other ranks of our reason, and ourselves of theirs."""
        while not self._done.wait(_SECONDS_BETWEEN_LOOKS):
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
                    return
            except RuntimeError:
                return  # the store is gone with its host: the next collective says so, naming the rank

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
