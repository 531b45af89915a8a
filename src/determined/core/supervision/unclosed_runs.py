"""Runs opened without `with`: ended by the next run of an interactive session, or when the program exits."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable

from determined.core.output_capture.exit_watch import ExitWatch
from determined.store.rows import BegunAttempt
from determined.user_code.program import is_interactive

logger = logging.getLogger("determined.core")

# Runs of this process that no `with` block ends, oldest first.
_runs: list[UnclosedRun] = []


class UnclosedRun:
    """A run that no `with` block ends. `release` is called when a block takes over or the run has ended.

    `at_exit` is called with the error that ends the program, or None, and ends the run. `for_another` ends it because
    another run starts, and notifies the user.
    """

    def __init__(self, at_exit: Callable[[BaseException | None], None], for_another: Callable[[], None]) -> None:
        self._at_exit = at_exit
        self.end_for_another = for_another
        self._pid = os.getpid()  # a forked child must not end its parent's run
        self._watch = ExitWatch()
        if not is_interactive():  # at a prompt every error would look like the end of the program
            self._watch.start()
        _runs.append(self)
        # Registered after the store's writer and so called before it: the writer still accepts the last reports.
        atexit.register(self._end_at_exit)

    def release(self) -> None:
        """Do not end the run automatically any more."""
        # `release` is called again when the context is closed.
        if self in _runs:
            _runs.remove(self)
            atexit.unregister(self._end_at_exit)
            self._watch.stop()

    def _end_at_exit(self) -> None:
        """End the run; an error is logged, because Python only prints errors of exit handlers."""
        if os.getpid() != self._pid:
            return
        try:
            self._at_exit(self._watch.error)
        except Exception:
            # The program is ending, so there is no caller to raise to.
            logger.exception("Cannot close the run")


def end_earlier_runs() -> None:
    """End the runs that are still open in an interactive session: usually the user executes a cell again."""
    if is_interactive():
        # A copy, because each run removes itself from the list.
        for earlier in list(_runs):
            earlier.end_for_another()


def announce_new_run(earlier: BegunAttempt | None) -> None:
    """Log that a new run starts and that the earlier one has ended."""
    ended = "the earlier run recorded nothing" if earlier is None else f"experiment {earlier.experiment_id} has ended"
    logger.warning("A new run starts; %s.", ended)
