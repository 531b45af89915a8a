"""The run of a context: open from `pytorch.init()` to the end of a `with` block, `close()`, or the program's end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType

from determined import core
from determined.core.left_open import LeftOpen, tell_of_new_run
from determined.errors import DeterminedError, InternalException

logger = logging.getLogger("determined.pytorch")

_CLOSED = "The run has ended: call fit() inside `with pytorch.init()`, or before context.close()."
_REPLACED = "The run has ended, because init() was called again: make the trial and the Trainer with the new context."


class OpenRun:
    """Ends a run once, and knows how its last `fit` ended."""

    def __init__(self, core_context: core.Context, closing: ExitStack) -> None:
        self._core = core_context
        self._closing = closing
        self._has_block = False
        self._fit_error: BaseException | None = None
        self._why_ended: str | None = None
        self._left_open = LeftOpen(self)

    def check(self) -> None:
        """Refuse to use a run that has ended."""
        if self._why_ended is not None:
            raise InternalException(self._why_ended)

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """Remember how a `fit` ends.

        Without a `with` block it is recorded at once. The process may be killed much later, as notebooks are: nothing
        is lost then, and the run must not look as if it had failed.
        """
        self._fit_error = None
        try:
            yield
        except BaseException as error:
            self._fit_error = error
            try:
                self._record_end()
            except DeterminedError:
                logger.exception("Cannot record how the training ended")
            raise
        self._record_end()

    def _record_end(self) -> None:
        if not self._has_block:
            self._core._report_end(self._fit_error)
            self._core._supervisor.flush()

    def enter(self) -> None:
        """Leave the end of the run to a `with` block."""
        self.check()
        self._has_block = True
        self._left_open.release()

    def leave(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End the run, with the error that ended the `with` block, unless it has ended already."""
        if self._why_ended is None:
            self._why_ended = _CLOSED
            self._left_open.release()
            self._fit_error = None  # its traceback holds batches and models
            self._closing.__exit__(kind, error, trace)

    def close(self) -> None:
        """End the run as its last `fit` ended: well, stopped, or with an error."""
        self._end(self._fit_error)

    def end_at_exit(self, error: BaseException | None) -> None:
        """End the run with the program. A run without any record stays without: it has nothing to show."""
        self._end((error or self._fit_error) if self._core._supervisor.begun_attempt() is not None else None)

    def end_for_another(self) -> None:
        """End the run because another one starts, and tell the user."""
        self.close()
        self._why_ended = _REPLACED
        tell_of_new_run(self._core._supervisor.begun_attempt())

    def _end(self, error: BaseException | None) -> None:
        with suppress(SystemExit):  # refused hyperparameters end a program; a session continues
            self.leave(None if error is None else type(error), error, None if error is None else error.__traceback__)
