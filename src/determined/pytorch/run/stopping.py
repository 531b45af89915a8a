"""End training early: finish the batch in progress and stop all ranks after the same batch.

A signal, a time limit or a pause request only sets a flag, which the loop reads after every batch. With several ranks,
the rank that received it puts a note into the key-value store of the ranks, which a thread on each rank polls. Each
rank then publishes its number of batches, and all continue to one more than the largest number. No rank has passed that
batch: once a rank sees the flag, its loop waits for the result before it starts another batch.

A second SIGINT stops without saving: it raises KeyboardInterrupt at once. Other signals never do. When training
has ended early, `end_program` ends the program with the exit code of the reason.
"""

from __future__ import annotations

import enum
import itertools
import logging
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
from typing import Any, NoReturn

from determined.core.distributed import DistributedContext, shared_store
from determined.errors import DistributedError
from determined.pytorch.display.progress import say
from determined.sentences import counted
from determined.user_code.program import end_ipython, is_interactive

logger = logging.getLogger("determined.pytorch")

_SECONDS_BETWEEN_POLLS = 0.25  # polling interval for the time limit, stop requests and other ranks' notes
_SECONDS_FOR_AN_ANSWER = 20  # threads answer at once, so a rank that takes longer is dead or frozen
_NOTE = "stop/note"


class EarlyStop(enum.Enum):
    """Why training ends early; the value is the exit code of the program, or None if `fit` returns.

    Separate from `StopRequest`, which says what happens after training: a signal or the time limit is no request to the
    run, and all requests end training in the same way.
    """

    SIGTERM = 143
    SIGINT = 130
    SIGHUP = 129
    TIME_LIMIT = 124
    REQUEST = None

    @property
    def described(self) -> str:
        """The reason as part of a message."""
        return {EarlyStop.TIME_LIMIT: "its time limit", EarlyStop.REQUEST: "a request"}.get(
            self, f"the signal {self.name}"
        )


# The signals by which terminals, schedulers and container managers end a program.
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_fits = itertools.count()


def _store_of_this_fit(distributed: DistributedContext) -> Any:
    """Return the key-value store of the ranks with a prefix for this fit: notes of an earlier fit must not stop it."""
    store = shared_store(distributed)
    if store is None:
        return None
    # Imported here, because without several ranks torch.distributed is not needed.
    from torch.distributed.distributed_c10d import PrefixStore

    return PrefixStore(f"fit/{next(_fits)}", store)


class Stopping:
    """A request to end training early. `raised` is set once there is one; `stop_at` returns the batch at which to stop.

    `abandoned` is set by a second SIGINT: nothing is saved or waited for any more.
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
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()  # reentrant: `put` is called in a signal handler
        self._done = False
        self._interrupted = False  # a SIGINT was received
        self._lock = threading.Lock()  # the loop and the watching thread may publish at the same time
        self._published = False
        self._decided = False  # all ranks agreed how training ends: a signal can no longer change it
        self._too_late: int | None = None  # a signal received after that, for the previous handler
        self.raised = False
        self.abandoned = False
        self.why: EarlyStop | None = None

    @contextmanager
    def listening(self) -> Iterator[Stopping]:
        """Handle SIGTERM, SIGINT and SIGHUP inside the block, and watch for requests in a thread."""
        watcher = threading.Thread(target=self._watch, name="determined-stop", daemon=True)
        watcher.start()
        previous = self._install()
        try:
            yield self
        finally:
            # Before the late signal is delivered, and before the thread ends: from here on signals are the program's.
            for number, handler in previous.items():
                signal.signal(number, handler)
            if self._too_late is not None:
                os.kill(os.getpid(), self._too_late)  # deliver it to the restored handler
            self._done = True
            self._wake.put(None)
            watcher.join(2 * _SECONDS_BETWEEN_POLLS)  # with a limit: a store on a frozen host never answers

    def stop_because(self, why: EarlyStop) -> None:
        """Request the end of training; safe in a signal handler.

        The first reason is kept, except that a signal replaces a request: after a request the program continues after
        `fit`, after a signal it must exit.
        """
        if not self._decided:
            # Assigned without the lock, which a signal handler must not wait for.
            self.why = why if self.why in (None, EarlyStop.REQUEST) else self.why
            self.raised = True
            self._wake.put(None)

    def share_reason(self) -> None:
        """Agree on the reason over all ranks, so that all exit with the same code. All ranks must call it."""
        self._decided = True
        # All ranks know the reasons of all, and choose by the same rule.
        reasons = [why for why in self._distributed.allgather(self.why) if why is not None]
        self.why = next((why for why in reasons if why is not EarlyStop.REQUEST), reasons[0] if reasons else None)

    def stop_at(self) -> int:
        """Return the number of batches after which every rank stops; the loop calls it once `raised` is set."""
        if self._store is None:
            # A single rank has finished its batch, so it stops here.
            return self._batches_done()
        if self._agreed is None:
            self._publish()
            # One more than the largest number: a rank may have started its next batch when it published.
            self._agreed = 1 + max(self._counts_of_all_ranks())
        return self._agreed

    def _counts_of_all_ranks(self) -> list[int]:
        """Return the number of batches of each rank.

        The threads of the ranks answer immediately, so DistributedError is raised for a rank that does not: it is dead
        or frozen.
        """
        keys = [f"stop/done/{rank}" for rank in range(self._distributed.size)]
        counts: list[int] = []
        silent: list[int] = []

        def ask() -> None:
            try:
                self._store.wait(keys, timedelta(seconds=_SECONDS_FOR_AN_ANSWER))
                counts.extend(int(self._store.get(key)) for key in keys)
            except RuntimeError:
                silent.extend(rank for rank, key in enumerate(keys) if not self._store.check([key]))

        # In a thread with a limited wait, because a store on a frozen host never answers.
        asking = threading.Thread(target=ask, name="determined-stop-counts", daemon=True)
        # A daemon thread: if it never returns, it must not keep the process alive.
        asking.start()
        # A little longer than the store's own time-out, whose error names the silent ranks.
        asking.join(_SECONDS_FOR_AN_ANSWER + 5)
        if not counts:
            who = (
                f"rank {', '.join(map(str, silent))}" if silent else "the chief (rank 0), which keeps the ranks' notes,"
            )
            raise DistributedError(
                f"{who} did not answer within {_SECONDS_FOR_AN_ANSWER} s when asked to stop: it has exited or hangs"
            )
        return counts

    def _install(self) -> dict[int, Any]:
        """Install the signal handlers and return the previous ones; only the main thread can do that."""
        if threading.current_thread() is not threading.main_thread():
            return {}
        previous: dict[int, Any] = {}
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            # A handler of the program is kept. None means one that was not installed from Python, and cannot be
            # restored.
            if handler in (signal.SIG_DFL, signal.default_int_handler) or _is_of_async_cell(handler):
                previous[number] = handler
                signal.signal(number, self._handle)
        return previous

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: request the end of training, or raise KeyboardInterrupt at the second SIGINT."""
        if number == signal.SIGINT and (self._interrupted or self._decided):
            # After the decision nothing is left to abandon: the checkpoint is stored.
            self.abandoned = not self._decided
            raise KeyboardInterrupt
        if self._decided:
            # Delivered to the previous handler at the end; to be lost would ignore the wish to end the process.
            self._too_late = number
        self._interrupted |= number == signal.SIGINT
        self.stop_because(EarlyStop[signal.Signals(number).name])

    def _watch(self) -> None:
        """Watch for requests: on the chief, the time limit and stop requests; on all ranks, notes of other ranks."""
        while True:
            with suppress(queue.Empty):
                # The time-out is the polling interval; a signal handler ends it at once.
                self._wake.get(timeout=_SECONDS_BETWEEN_POLLS)
            if self._done:
                return
            # Only the chief asks, so that clocks and requests cannot differ between ranks.
            if self._distributed.rank == 0:
                if time.monotonic() >= self._ends:
                    self.stop_because(EarlyStop.TIME_LIMIT)
                if self._requested():
                    self.stop_because(EarlyStop.REQUEST)
            try:
                if self._store is not None and not self.raised and self._store.check([_NOTE]):
                    self.raised = True  # before _publish reads the count: from now on the loop starts no batch
                if self.raised:
                    self._publish()
                    self._announce()
                    return
            except RuntimeError:
                return  # the store's host is down: the next collective fails and names the rank

    def _announce(self) -> None:
        """Print immediately that training is about to end: nothing else is shown until the batch is finished and saved.

        It is printed by the watching thread: a signal handler could interrupt the main thread inside a write to the
        stream.
        """
        why = (
            self.why or EarlyStop[self._store.get(_NOTE).decode()]
        )  # otherwise another rank wrote the reason into the note
        if self._distributed.rank != 0 or why is EarlyStop.REQUEST:
            return
        again = " (Ctrl-C again: stop without saving)" if why is EarlyStop.SIGINT else ""
        say(f"Stopping because of {why.described}: saving a checkpoint …{again}")

    def _publish(self) -> None:
        """Publish the note and this rank's number of batches, once, called by the loop or the thread."""
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
    """Return whether a handler is Jupyter's for a cell with `await`: it cancels a task, which would not end `fit`."""
    return str(getattr(handler, "__module__", "")).partition(".")[0] == "ipykernel"


def end_program(why: EarlyStop, batches: int, line: str | None) -> NoReturn:
    """End the program after a checkpoint was saved; `line`, printed last, says how to continue.

    A script ends with the exit code of `why`. In an interactive session Ctrl-C and the time limit raise
    KeyboardInterrupt instead: the variables of the session are the user's work, so it must continue. Other signals ask
    the process to end, and it does; IPython ignores SystemExit, so its exit is requested explicitly.
    """
    trained = counted(batches, "batch", "batches")
    if is_interactive():
        if why in (EarlyStop.SIGINT, EarlyStop.TIME_LIMIT):
            raise KeyboardInterrupt(
                f"training was stopped by {why.described} after {trained}, and a checkpoint was saved; call fit() "
                "again to continue"
            )
        end_ipython()
    logger.warning("training was stopped by %s after %s", why.described, trained)
    _exit(why, line)


def end_program_without_saving(batches: int, line: str | None) -> NoReturn:
    """End a script after a second Ctrl-C; `line`, printed last, says how to continue."""
    logger.warning("training was stopped without saving after %s", counted(batches, "batch", "batches"))
    _exit(EarlyStop.SIGINT, line)


def _exit(why: EarlyStop, line: str | None) -> NoReturn:
    """Print the last line and raise SystemExit with the exit code of `why`."""
    # The last line on the terminal, where a user looks first.
    if line is not None:
        say(line)
    raise SystemExit(why.value)
