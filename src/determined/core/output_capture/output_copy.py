"""Store a copy of what this process prints as the log of its run."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import queue
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from determined.core.output_capture.output_limit import OutputLimit, PrintedLine
from determined.errors import DeterminedError
from determined.output_lines import LONGEST, level_of, pieces
from determined.switches import is_on
from determined.user_code.program import ipython_shell

logger = logging.getLogger("determined.core")

VARIABLE = "DET_STORE_OUTPUT"

_MOST_PIECES = 100_000  # above this, printing blocks until the thread has caught up (back-pressure)
_MOST_UNFINISHED = 1000  # texts without a line end, which would otherwise collect in memory without a limit
_MOST_WAITING = 10_000  # lines kept for a run that is not in the store yet
_SECONDS_BETWEEN_TRIES = 0.5  # for lines that wait until the run is in the store
_STREAMS = ("stdout", "stderr")
# Sequences with which progress bars erase the line before they write it again.
_ERASE_LINE = ("\x1b[K", "\x1b[2K")


class Transient(str):
    """A text that a terminal shows until it is overwritten; it is not stored.

    Stored, it would be joined with the next line that another part of the program prints to the same stream.
    """


def is_wanted(given: bool | None, environment: Mapping[str, str]) -> bool:
    """Return whether the output of a run is stored. The argument of `init()` or else the environment can disable it."""
    if given is not None and not isinstance(given, bool):
        raise TypeError(f"init: store_output must be True, False or None, got {given!r:.80}")
    if given is not None:
        return given
    return is_on(environment, VARIABLE)


class OutputCopy:
    """Stores, between `start` and `stop`, every text that is printed to `sys.stdout` and `sys.stderr`.

    The stream objects and their file descriptors stay in place, so terminals, `input()`, debuggers and logging handlers
    that hold a stream work as before. Output of subprocesses and C libraries is not stored. A failure of the store ends
    the copying, never the program.

    `store` takes lines and returns False while the run is not in the store; the lines wait until then.
    """

    def __init__(self, store: Callable[[list[PrintedLine]], bool]) -> None:
        self._store = store
        # A forked child inherits the replaced streams; what it prints belongs to its own process.
        self._pid = os.getpid()
        # A SimpleQueue is reentrant, unlike a lock: a signal handler may print while its own thread is printing.
        self._pieces: queue.SimpleQueue[tuple[str, str, float] | None] = queue.SimpleQueue()
        # Texts of an unfinished line: one `print` call writes its arguments one by one.
        self._unfinished: dict[str, deque[str]] = {name: deque() for name in _STREAMS}
        self._lines = {name: _Lines() for name in _STREAMS}
        self._limit = OutputLimit()
        self._waiting: deque[PrintedLine] = deque()
        self._listening = False
        self._failed = False
        self._restore: dict[str, Callable[[], None]] = {}
        self._writes: weakref.WeakSet[Callable[..., Any]] = weakref.WeakSet()  # replacements of a stream's write method
        self._newest: dict[str, Callable[..., Any]] = {}  # the one of them that copies
        self._thread = threading.Thread(target=self._run, name="determined-output", daemon=True)

    def start(self) -> None:
        """Start to copy both streams."""
        self._listening = True
        self._thread.start()
        # Registered before the streams are replaced: an exit in between still restores them.
        atexit.register(self.stop)
        self._attach()
        shell = ipython_shell()
        if shell is not None:
            shell.events.register("pre_run_cell", self._attach)
            self._restore["cells"] = lambda: shell.events.unregister("pre_run_cell", self._attach)

    def _attach(self, _cell: Any = None) -> None:
        """Replace the write method of both streams.

        Repeated before each cell, because IPython restores the original after it.
        """
        heard: list[Any] = []
        for name in _STREAMS:
            stream = getattr(sys, name)
            # Both names may refer to one stream, which must not be copied twice.
            if stream is not None and not any(stream is known for known in heard):
                heard.append(stream)
                self._listen(name, stream)

    def run_has_begun(self) -> None:
        """Make `stop` run at exit before the store's writer closes; called once the writer is open."""
        if self._listening:
            atexit.unregister(self.stop)
            atexit.register(self.stop)

    def stop(self, error: BaseException | None = None) -> None:
        """Store the remaining output, and an error that Python will print after this, and restore the streams."""
        # The second call comes from the exit handler.
        if not self._listening or os.getpid() != self._pid:
            return
        self._listening = False
        for restore in self._restore.values():
            restore()
        for name in _STREAMS:
            self._hand_over(name)
        # SystemExit prints no traceback, and KeyboardInterrupt is not an error of the program.
        if isinstance(error, Exception):
            import traceback  # imported on use: most runs succeed

            self._pieces.put(("stderr", "".join(traceback.format_exception(error)), time.time()))
        self._pieces.put(None)
        self._thread.join()
        atexit.unregister(self.stop)

    def _listen(self, name: str, stream: Any) -> None:
        """Replace the write method of a stream by one that also copies the text."""
        original = stream.write
        if original in self._writes:
            self._newest[name] = original
            return
        replaced = vars(stream).get("write") if hasattr(stream, "__dict__") else None  # the replacement of an outer run
        unfinished = self._unfinished[name]

        def write(text: Any, /) -> Any:
            """Write the text to the stream, and keep it for the log."""
            # First the real stream: an error of it, such as a closed pipe, belongs to the caller of `print`.
            done = original(text)
            if isinstance(text, Transient):
                return done
            # The original may be an older replacement of this object, reached through IPython's.
            is_newest = self._newest.get(name) is write
            if is_newest and self._listening and isinstance(text, str) and os.getpid() == self._pid:
                # Without a lock: `deque.append` is atomic, and a signal handler may print in the middle of a line.
                unfinished.append(text)
                # Handed over by lines: the queue then has one piece for each line instead of one for each argument of
                # `print`.
                if "\n" in text or "\r" in text or len(unfinished) > _MOST_UNFINISHED:
                    self._wait_for_thread()
                    self._hand_over(name)
            return done

        def restore() -> None:
            """Restore the write method that the stream had before."""
            if vars(stream).get("write") is not write:
                return  # another replacement calls this one, which no longer copies
            if replaced is None:
                del stream.write
            else:
                stream.write = replaced

        try:
            stream.write = write
        # A stream of a C extension may have no attributes that can be set.
        except AttributeError:
            logger.warning("Cannot capture %s; it will not be in the trial log.", name)
            return
        self._writes.add(write)
        self._newest[name] = write
        self._restore[name] = restore

    def _hand_over(self, name: str) -> None:
        """Pass the printed pieces to the thread. Other threads may print meanwhile: each piece is taken once."""
        unfinished = self._unfinished[name]
        taken = []
        # Another thread may take a piece between a test for emptiness and `popleft`.
        with contextlib.suppress(IndexError):
            while True:
                taken.append(unfinished.popleft())
        self._pieces.put((name, "".join(taken), time.time()))

    def _wait_for_thread(self) -> None:
        """Block while too many pieces are queued."""
        if threading.current_thread().name.startswith("determined-"):
            return  # this thread, or one that it waits for: blocking here would deadlock
        while self._pieces.qsize() > _MOST_PIECES and self._thread.is_alive():
            time.sleep(0.01)  # there is nothing to wait on: a condition variable would need a lock, see above

    # The methods below run in the thread.

    def _run(self) -> None:
        """Turn queued pieces into stored lines until None is received."""
        while True:
            try:
                # Without waiting lines the thread sleeps until something is printed.
                piece = self._pieces.get(timeout=_SECONDS_BETWEEN_TRIES if self._waiting else None)
            except queue.Empty:
                self._keep([])
                continue
            if piece is None:
                break
            name, text, written = piece
            self._keep([self._line(name, one, written) for one in self._lines[name].feed(text)])
        now = time.time()
        rest = [self._line(name, one, now) for name, lines in self._lines.items() for one in lines.flush()]
        self._keep([*rest, *self._limit.summary(now)])

    def _line(self, stream: str, text: str, written: float) -> PrintedLine:
        """Return a line with the log level that its text shows."""
        return PrintedLine(stream, text, written, level_of(text))

    def _keep(self, lines: list[PrintedLine]) -> None:
        """Store these and all waiting lines; stop storing after an error of the store."""
        if self._failed:
            return
        self._waiting.extend(self._limit.admitted(lines))
        try:
            if self._waiting and self._store(list(self._waiting)):
                self._waiting.clear()
        except DeterminedError as error:
            # Once for the rest of the run: a store that refuses lines would otherwise warn for each of them.
            self._failed = True
            self._waiting.clear()
            logger.warning("What this process prints is no longer stored: %s", error)
        while len(self._waiting) > _MOST_WAITING:
            # The oldest lines are dropped; what was printed last explains an error.
            self._waiting.popleft()
            self._limit.note_dropped()


class _Lines:
    """Joins pieces of printed text into lines.

    Of a line that was overwritten, as by a progress bar, the last state counts.
    """

    def __init__(self) -> None:
        self._pending = ""

    def feed(self, text: str) -> list[str]:
        """Add a printed text and return the lines that are complete now."""
        *ended, pending = (self._pending + text).split("\n")
        # A carriage return at the end is kept: what follows overwrites the line.
        self._pending = _last_part(pending) + ("\r" if pending.endswith("\r") else "")
        lines = [piece for line in ended for piece in _stored_pieces(line)]
        # A program that never prints a line end must not collect its output in memory.
        if len(self._pending) > LONGEST:
            *more, self._pending = _stored_pieces(self._pending)
            lines += more
        return lines

    def flush(self) -> list[str]:
        """Return the unfinished line at the end of the output."""
        pending, self._pending = self._pending, ""
        return _stored_pieces(pending) if _last_state(pending) else []


def _stored_pieces(line: str) -> list[str]:
    """Return a line in pieces of at most the stored length; characters that UTF-8 cannot encode are escaped."""
    encoded = _last_state(line).encode(errors="backslashreplace")
    return [piece.decode(errors="backslashreplace") for piece in pieces(encoded)]


def _last_state(line: str) -> str:
    """Return what a terminal shows of a line with carriage returns, ignoring remains of longer earlier states."""
    last = _last_part(line)
    while last.startswith(_ERASE_LINE):
        # Both sequences end in K.
        last = last[last.index("K") + 1 :]
    return last


def _last_part(line: str) -> str:
    """Return the last non-empty part between carriage returns."""
    return next((part for part in reversed(line.split("\r")) if part), "") if "\r" in line else line
