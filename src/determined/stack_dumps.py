"""Print the Python stacks of this process when it receives a signal, also while it waits inside a collective.

The thread that receives the signal, which is the main thread unless it blocks the signal, is printed at once by
faulthandler. The other threads are printed by a Python handler, as soon as the main thread executes Python code again:
faulthandler would read their frames while they change them, which can end the process.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
from types import FrameType
from typing import Any

_descriptor = 2  # of the file that receives the stacks
_previous: Any = None  # the handler of the user, which is called after the stacks were printed


def print_stacks_on(number: signal.Signals, descriptor: int) -> None:
    """Print the stacks of all threads to an open file on a signal. For the main thread; repeated calls are allowed.

    A handler that the program has registered before is called as well.
    """
    global _descriptor, _previous
    _descriptor = descriptor
    present = signal.getsignal(number)
    if present is not _print_other_threads:
        # The default action of the signal, which would end the process, is replaced.
        _previous = present if callable(present) else None
    # It restores the handler that it had replaced, so it comes before the new one is set.
    faulthandler.unregister(number)
    signal.signal(number, _print_other_threads)
    faulthandler.register(number, file=descriptor, all_threads=False, chain=True)


def _print_other_threads(number: int, frame: FrameType | None) -> None:
    """Print the stacks of all threads but the main thread, and call the user's handler."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for identifier, innermost in sys._current_frames().items():
        if identifier != threading.get_ident():
            # As faulthandler prints: the innermost call first.
            calls = reversed(traceback.extract_stack(innermost))
            lines = [f'  File "{call.filename}", line {call.lineno} in {call.name}\n' for call in calls]
            _write(f"\nThread {names.get(identifier, identifier)} (most recent call first):\n{''.join(lines)}")
    if _previous is not None:
        _previous(number, frame)


def _write(text: str) -> None:
    """Write text without a stream: the main thread may have been interrupted while it wrote to one."""
    try:
        os.write(_descriptor, text.encode(errors="backslashreplace"))
    except OSError:
        # The file was closed, or the reader of the pipe has exited: a request for stacks must not end the program.
        return
