"""Raise the right exception when training ends early in an interactive session, which must survive it."""

from __future__ import annotations

from determined.plural import counted
from determined.program import end_ipython, is_interactive
from determined.pytorch.run.stopping import EarlyStop


def spare_session(why: EarlyStop, batches: int) -> None:
    """Raise KeyboardInterrupt in an interactive session after Ctrl-C or at the time limit.

    A script ends with an exit code instead, and this function does nothing. The variables of the session are the user's
    work, so it must continue. Other signals ask the process to end, and it does; IPython ignores SystemExit, so its
    exit is requested explicitly.
    """
    if not is_interactive():
        return
    if why in (EarlyStop.SIGINT, EarlyStop.TIME_LIMIT):
        raise KeyboardInterrupt(
            f"training was stopped by {why.described} after {counted(batches, 'batch', 'batches')}, "
            "and a checkpoint was saved; call fit() again to continue"
        )
    end_ipython()
