"""What an early end of training means in an interactive session, which must not end with it."""

from __future__ import annotations

from determined.program import end_ipython, is_interactive
from determined.pytorch.stopping import Why


def spare_session(why: Why, batches: int) -> None:
    """In an interactive session, raise KeyboardInterrupt where a script ends with an exit code.

    The variables of the session are the user's work. Signals that ask the process itself to end still end it; IPython
    needs to be told, because it survives a SystemExit.
    """
    if not is_interactive():
        return
    if why in (Why.SIGINT, Why.TIME_LIMIT):
        raise KeyboardInterrupt(
            f"training was stopped by {why.described} after {batches} batches, and a checkpoint was saved; "
            "call fit() again to continue"
        )
    end_ipython()
