"""`OpenRun`: the lifetime of a run, from `pytorch.init()` to the end of a `with` block, `close()` or program exit."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType

from determined import core
from determined.core.supervision.unclosed_runs import UnclosedRun, announce_new_run
from determined.errors import DeterminedError, InternalException

logger = logging.getLogger("determined.pytorch")

_CLOSED = "The run has ended: call fit() inside `with pytorch.init()`, or before context.close()."
_REPLACED = "The run has ended, because init() was called again: create the trial and the Trainer with the new context."


class OpenRun:
    """A run that ends exactly once, with the outcome of its last `fit`."""

    def __init__(self, core_context: core.Context, closing: ExitStack) -> None:
        self._core = core_context
        self._closing = closing
        self._has_block = False
        self._fit_error: BaseException | None = None
        self._why_ended: str | None = None
        # Registered at once: a program may exit without closing the run or entering a block.
        self._left_open = UnclosedRun(self.end_at_exit, self.end_for_another)

    def check(self) -> None:
        """Raise InternalException if the run has ended."""
        if self._why_ended is not None:
            raise InternalException(self._why_ended)

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """Record the outcome of the `fit` inside the block.

        Without a `with` block the outcome is written at once: a notebook's process may be killed much later, and a run
        whose training is complete must not be recorded as failed then.
        """
        self._fit_error = None
        try:
            yield
        except BaseException as error:
            self._fit_error = error
            # The error of the training is the one to raise, so failing to record it is only logged.
            try:
                self._record_end()
            except DeterminedError:
                logger.exception("Cannot record how the training ended")
            raise
        self._record_end()

    def _record_end(self) -> None:
        """Write the outcome of the last `fit` to the store, unless a `with` block does it."""
        if not self._has_block:
            self._core._report_end(self._fit_error)
            # Waited for: a notebook's process may be killed without any further call.
            self._core._supervisor.flush()

    def enter(self) -> None:
        """Let a `with` block end the run."""
        self.check()
        self._has_block = True
        # The block ends the run now, and program exit must not end it a second time.
        self._left_open.release()

    def leave(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the run with the error that ended the `with` block, unless it has already ended."""
        if self._why_ended is None:
            # Set first, so that an error while closing does not end the run twice.
            self._why_ended = _CLOSED
            self._left_open.release()
            self._fit_error = None  # its traceback keeps batches and models in memory
            self._closing.__exit__(kind, error, trace)

    def close(self) -> None:
        """End the run with the outcome of its last `fit`."""
        self._end(self._fit_error)

    def end_at_exit(self, error: BaseException | None) -> None:
        """End the run at program exit. If nothing was recorded for it yet, no record is created."""
        # Without a recorded attempt there is nothing whose failure could be stored.
        self._end((error or self._fit_error) if self._core._supervisor.begun_attempt() is not None else None)

    def end_for_another(self) -> None:
        """End the run because a new one starts, and inform the user."""
        # Closed with the outcome of its last fit, not as failed: only a new one replaces it.
        self.close()
        self._why_ended = _REPLACED
        announce_new_run(self._core._supervisor.begun_attempt())

    def _end(self, error: BaseException | None) -> None:
        """End the run with an error or without one."""
        with suppress(SystemExit):  # rejected hyperparameters end a script; an interactive session must continue
            self.leave(None if error is None else type(error), error, None if error is None else error.__traceback__)
