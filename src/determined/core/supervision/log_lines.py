"""Stores what a process prints as the log of its run."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

from determined.core.output_capture.output_copy import OutputCopy
from determined.core.output_capture.output_limit import PrintedLine
from determined.core.supervision.attempts import Attempts, RecordedRun, StoreOutOfReach
from determined.store.rows import BegunAttempt, LogRow
from determined.store.workers.worker_store import WorkerStore
from determined.store.workers.writer import Writer


class LogLines:
    """The printed lines of one rank. They wait until the run is recorded, and belong to its current attempt."""

    def __init__(self, run: RecordedRun, writer: Writer[WorkerStore], attempts: Attempts) -> None:
        self._run = run
        self._writer = writer
        self._attempts = attempts
        self._output: OutputCopy | None = None
        # (trial, attempt) that the lines belong to, and their numbers
        self._log: tuple[tuple[int, int], Iterator[int]] | None = None
        self._is_recorded = False  # of another rank than the chief: the chief has recorded the attempt
        self._mask: Callable[[str], str] | None = None  # created with the first stored line

    def copy(self) -> None:
        """Store what this process prints, from now on until `end`."""
        self._output = OutputCopy(self._store)
        self._output.start()

    def end(self, error: BaseException | None) -> None:
        """Store the remaining output and an error that Python is about to print; stop copying."""
        if self._output is not None:
            self.note_recorded()  # if no attempt is found now, there is none to wait for
            self._output.stop(error)

    def note_recorded(self) -> None:
        """Note that the chief has recorded the attempt.

        From now on, a rank that does not find the attempt in its store is on another machine and cannot reach the
        store.
        """
        self._is_recorded = not self._run.member.is_chief

    def begin(self, begun: BegunAttempt) -> None:
        """Assign lines to this attempt from now on."""
        self._assign_to(begun)
        if self._output is not None:
            self._output.run_has_begun()

    def leave(self) -> None:
        """Let lines wait for the next attempt."""
        self._log = None

    def _store(self, lines: list[PrintedLine]) -> bool:
        """Store printed lines; return False while the run is not in the store. Called by the output thread."""
        # The chief is told of its attempt by `begin`; other ranks learn of it from the store.
        if self._log is None and not self._run.member.is_chief:
            begun = self._attempts.find()
            if begun is not None:
                self._assign_to(begun)
        if self._log is None:
            if self._is_recorded:
                self._refuse_if_out_of_reach()
            return False
        if self._mask is None:
            # Imported on use: not needed by programs that print nothing.
            from determined.config.secrets.line_mask import line_mask

            self._mask = line_mask(os.environ, self._run.new.config)
        (trial_id, attempt), numbers = self._log
        rank = self._run.member.rank
        for line in lines:
            text = self._mask(line.text)
            self._writer.put(
                # Numbers identify the lines, so that a repeated write does not store them twice.
                LogRow(trial_id, attempt, rank, next(numbers), line.stream, text, line.written, line.level)
            )
        return True

    def _refuse_if_out_of_reach(self) -> None:
        """Raise StoreOutOfReach if lines of this rank would wait for ever, because the store is on another machine."""
        try:
            self._attempts.check_reach()
        except StoreOutOfReach as error:
            where = "its output is not stored and appears only on its standard output and error"
            raise StoreOutOfReach(f"{error}; until then {where}") from None

    def _assign_to(self, begun: BegunAttempt) -> None:
        """Assign lines to this attempt, numbered from 0."""
        attempt = (begun.trial_id, begun.number)
        # An attempt that is joined again continues its numbers; new ones would collide with lines that are stored.
        if self._log is None or self._log[0] != attempt:
            self._log = attempt, itertools.count()
