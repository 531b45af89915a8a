"""Runs that were opened without `with`: the next run of an interactive session ends them, or the end of the program."""

from __future__ import annotations

import atexit
import logging
import os
from typing import Protocol

from determined.core.exit_watch import ExitWatch
from determined.program import is_interactive
from determined.store.records import BegunAttempt

logger = logging.getLogger("determined.core")

_runs: list[LeftOpen] = []


class Endable(Protocol):
    """A run that can be ended from outside."""

    def end_at_exit(self, error: BaseException | None) -> None:
        """End the run with the program, which the error ended, if there is one."""
        ...

    def end_for_another(self) -> None:
        """End the run because another one starts, and tell the user."""
        ...


class LeftOpen:
    """A run that no `with` block ends; `release` when one does, or when the run has ended."""

    def __init__(self, run: Endable) -> None:
        self._run = run
        self._pid = os.getpid()  # a forked child must not end the run of its parent
        self._watch = ExitWatch()
        if not is_interactive():  # there every mistake at the prompt would look like the end of the program
            self._watch.start()
        _runs.append(self)
        # Registered later than the writer of the run's store, and so called earlier: it still takes the last reports.
        atexit.register(self._end_at_exit)

    def release(self) -> None:
        """Leave the end of the run to the caller."""
        if self in _runs:
            _runs.remove(self)
            atexit.unregister(self._end_at_exit)
            self._watch.stop()

    def _end_at_exit(self) -> None:
        if os.getpid() != self._pid:
            return
        try:
            self._run.end_at_exit(self._watch.error)
        except Exception:
            logger.exception("Cannot close the run")


def end_earlier_runs() -> None:
    """In an interactive session, end the runs that are left open: as a rule the user runs a cell again."""
    if is_interactive():
        for earlier in list(_runs):
            earlier._run.end_for_another()


def tell_of_new_run(earlier: BegunAttempt | None) -> None:
    """Tell the user that a new run starts, and what the end of the earlier one means."""
    ended = "the earlier run recorded nothing" if earlier is None else f"experiment {earlier.experiment_id} has ended"
    logger.warning("A new run starts; %s.", ended)
