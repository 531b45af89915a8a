"""What this process prints, kept as the log of its run as well."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import os
import queue
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

from determined.config.line_mask import line_mask
from determined.engines.base import Line
from determined.engines.lines import Splitter
from determined.errors import DeterminedError
from determined.store.open import open_store, patience
from determined.store.records import LogRow
from determined.store.writer import Writer

logger = logging.getLogger("determined.experimental")

_MOST_PIECES = 100_000  # then whoever prints waits for the store
_MOST_UNFINISHED = 1000
_THREAD = "determined-output"
_STREAMS = ("stdout", "stderr")


class OutputCopy:
    """From `start` to `stop` every text that is printed to stdout or stderr goes to the store, too.

    The streams stay what they are: who holds one already, as a logging handler does, is heard as well. What other
    processes write, or a library past Python, is not. Trouble with the store ends the copying, never the program.
    """

    def __init__(self, place: str, trial_id: int, attempt: int, rank: int) -> None:
        self._trial_id = trial_id
        self._attempt = attempt
        self._rank = rank
        self._pid = os.getpid()
        # Unlike a lock this may be used by a signal handler that prints while its own thread is printing.
        self._pieces: queue.SimpleQueue[tuple[str, str, float] | None] = queue.SimpleQueue()
        # One `print` writes its arguments one by one.
        self._unfinished: dict[str, deque[str]] = {name: deque() for name in _STREAMS}
        self._numbers = itertools.count()
        self._mask = line_mask(os.environ)
        self._writer = Writer(lambda: open_store(place), patience=patience())
        self._listening = False
        self._restore: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._keep, name=_THREAD, daemon=True)

    def start(self) -> None:
        self._writer.ask(lambda store: store.place)  # opens it: what cannot be written is said now
        self._thread.start()
        atexit.register(self.stop)
        self._listening = True
        heard: list[Any] = []
        for name in _STREAMS:
            stream = getattr(sys, name)
            if stream is not None and not any(stream is known for known in heard):
                heard.append(stream)
                self._listen(name, stream)

    def stop(self, error: BaseException | None = None) -> None:
        """Keep what is left; an error that is still on its way to the terminal is written as Python would show it."""
        if not self._listening or os.getpid() != self._pid:
            return
        self._listening = False
        for restore in self._restore:
            restore()
        for name in _STREAMS:
            self._hand_over(name)
        if isinstance(error, Exception):
            self._pieces.put(("stderr", "".join(traceback.format_exception(error)), time.time()))
        self._pieces.put(None)
        self._thread.join()
        atexit.unregister(self.stop)

    def _listen(self, name: str, stream: Any) -> None:
        original = stream.write
        unfinished = self._unfinished[name]

        def write(text: Any, /) -> Any:
            done = original(text)
            if self._listening and isinstance(text, str) and os.getpid() == self._pid:
                unfinished.append(text)
                if "\n" in text or "\r" in text or len(unfinished) > _MOST_UNFINISHED:
                    self._wait_for_room()
                    self._hand_over(name)
            return done

        def restore() -> None:
            if vars(stream).get("write") is write:  # somebody may have put another one above ours
                del stream.write

        try:
            stream.write = write
        except AttributeError:
            logger.warning("what is printed to %s is not kept: it takes no listeners", name)
            return
        self._restore.append(restore)

    def _hand_over(self, name: str) -> None:
        """Other threads may print meanwhile: each piece is taken once."""
        unfinished = self._unfinished[name]
        pieces = []
        with contextlib.suppress(IndexError):
            while True:
                pieces.append(unfinished.popleft())
        self._pieces.put((name, "".join(pieces), time.time()))

    def _wait_for_room(self) -> None:
        if threading.current_thread().name.startswith("determined-"):
            return  # those who make room
        while self._pieces.qsize() > _MOST_PIECES and self._thread.is_alive():
            time.sleep(0.01)

    # What follows is called by the thread.

    def _keep(self) -> None:
        splitters = {name: Splitter("", name) for name in _STREAMS}
        lost: DeterminedError | None = None
        while (piece := self._pieces.get()) is not None:
            name, text, written = piece
            lines = splitters[name].feed(text.encode(errors="backslashreplace"), written)
            lost = lost or self._write(lines)
        rest = [line for splitter in splitters.values() for line in splitter.flush(time.time())]
        lost = lost or self._write(rest)
        try:
            self._writer.close(hurry=True)
        except DeterminedError as error:
            if lost is None:
                self._say_lost(error)

    def _write(self, lines: list[Line]) -> DeterminedError | None:
        try:
            for line in lines:
                self._writer.put(
                    LogRow(
                        self._trial_id,
                        self._attempt,
                        line.rank or self._rank,
                        next(self._numbers),
                        line.stream,
                        self._mask(line.text),
                        line.written,
                        line.level,
                    )
                )
        except DeterminedError as error:
            self._say_lost(error)
            return error
        return None

    def _say_lost(self, error: DeterminedError) -> None:
        logger.warning("what this process prints is not kept any more: %s", error)
