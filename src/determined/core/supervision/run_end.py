"""Derive the final state of a run, the reason and the exit code from the error that ended it."""

from __future__ import annotations

import os
from typing import NamedTuple

from determined.errors import InvalidHP
from determined.stop_request import StopRequest
from determined.store.states import EndState

_STOPPED_POLITELY = (124, 129, 130, 143)  # exit codes of an early end by a time limit, SIGHUP, SIGINT or SIGTERM
_LONGEST_REASON = 16 * 1024  # characters: a traceback fits, and a dump of data in its message is cut


class RunEnd(NamedTuple):
    """The final state of a run as it is recorded."""

    state: EndState
    reason: str | None
    exit_code: int


def how_it_ended(error: BaseException | None) -> RunEnd:
    """Return the final state of a run whose block was left with this error; secrets in the reason are masked."""
    if error is None:
        return RunEnd("completed", None, 0)
    if isinstance(error, InvalidHP):
        return RunEnd("completed", _stored(f"InvalidHP: {error}"), 0)
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            code = error.code or 0
            state: EndState = "stopped" if code in _STOPPED_POLITELY else "failed" if code else "completed"
            return RunEnd(state, None, code)
        return RunEnd("failed", _stored(str(error.code)), 1)  # Python prints the text and exits with 1
    if isinstance(error, KeyboardInterrupt):
        return RunEnd("stopped", None, 130)
    import traceback  # imported on use, like the mask below: most runs succeed

    return RunEnd("failed", _stored("".join(traceback.format_exception(error)).rstrip()), 1)


def end_of_standalone_run(state: EndState, request: StopRequest | None, *, acknowledged: bool) -> EndState:
    """Return how an attempt of a standalone run ended, where a request may have ended it.

    After a request `fit` returns and the program ends well, but the run has not completed.
    """
    if state == "completed" and acknowledged:
        # Not "kill", because workers read it as a cancel.
        ends: dict[StopRequest | None, EndState] = {
            "pause": "stopped",
            "reschedule": "stopped",
            "cancel": "canceled",
        }
        return ends.get(request, state)
    return "canceled" if state == "stopped" and request == "cancel" else state


def _stored(reason: str) -> str:
    """Return a reason with secrets masked and the middle of a long text cut out."""
    from determined.config.secrets.line_mask import line_mask

    masked = line_mask(os.environ)(reason)
    # The beginning shows where the program was, and the end shows the error.
    if len(masked) <= _LONGEST_REASON:
        return masked
    half = _LONGEST_REASON // 2
    return f"{masked[:half]}\n...\n{masked[-half:]}"
