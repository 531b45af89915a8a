"""Fork a sibling: a copy of this process whose parent is the parent of this process."""

from __future__ import annotations

import ctypes
import os
import signal

_CLONE_PARENT = 0x8000
_CLONE_CHILD_CLEARTID = 0x200000
_CLONE_CHILD_SETTID = 0x1000000
_PR_GET_TID_ADDRESS = 40
_CLONE_NUMBERS = {"x86_64": 56, "aarch64": 220}  # of the system call

# Unlike CDLL, PyDLL keeps the interpreter's lock during a call, as `os.fork` does.
_library = ctypes.PyDLL(None, use_errno=True)


def fork_sibling() -> int:
    """Return 0 in the new process, and its id in this one, which must not have other threads.

    Only the parent can wait for the new process, and gets a signal when it ends. `os.fork` cannot do this; what it does
    for the interpreter before and after the system call is done here as well.
    """
    address = ctypes.c_void_p()
    _library.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0)
    # As in the C library's own `fork`: the id of the thread, which the library keeps in its memory, is replaced.
    ids = _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID if address.value else 0
    number = _CLONE_NUMBERS[os.uname().machine]
    nothing = ctypes.c_void_p()  # no new stack, no id for the parent, no thread-local storage
    others = (address, nothing) if number == _CLONE_NUMBERS["x86_64"] else (nothing, address)
    _library.PyOS_BeforeFork()
    flags = ctypes.c_long(_CLONE_PARENT | ids | signal.SIGCHLD)
    pid: int = _library.syscall(ctypes.c_long(number), flags, nothing, nothing, *others)
    error = ctypes.get_errno()
    if pid == 0:
        _library.PyOS_AfterFork_Child()
    else:
        _library.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(error, "a process could not be forked")
    return pid
