"""End the program when training ended early, after a signal or at the time limit."""

from __future__ import annotations

import logging
from typing import NoReturn

from determined.pytorch.display.progress import say
from determined.pytorch.run.stopping import EarlyStop
from determined.sentences import counted
from determined.user_code.program import end_ipython, is_interactive

logger = logging.getLogger("determined.pytorch")


def end(why: EarlyStop, batches: int, line: str | None) -> NoReturn:
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


def end_without_saving(batches: int, line: str | None) -> NoReturn:
    """End a script after a second Ctrl-C; `line`, printed last, says how to continue."""
    logger.warning("training was stopped without saving after %s", counted(batches, "batch", "batches"))
    _exit(EarlyStop.SIGINT, line)


def _exit(why: EarlyStop, line: str | None) -> NoReturn:
    """Print the last line and raise SystemExit with the exit code of `why`."""
    # The last line on the terminal, where a user looks first.
    if line is not None:
        say(line)
    raise SystemExit(why.value)
