"""Run work in a forked child, which sees a snapshot of this process's memory while training continues.

A forked child has only the thread that called fork: a lock that another thread held stays locked forever. So the child
may only write its own files and run Python code that takes no locks of the program. It does not write to a log (the
lock of a stream may be held; its log records are sent to the parent, which logs them) and imports no modules (an import
lock may be held; the caller imports everything beforehand). It never goes through the interpreter's shutdown, never
runs the garbage collector (finalizers might wait for threads that do not exist), ignores signals meant for the parent,
and is killed when the parent ends. A child that hangs in spite of this is detected and killed.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from determined.kernel import signal_when_parent_ends

# Short enough to notice a canceled upload soon, and rare enough to cost nothing.
_SECONDS_BETWEEN_POLLS = 0.5
# A child asleep on a lock (futex) is deadlocked; one asleep on a slow disk is not.
_SECONDS_ASLEEP = {True: 60.0, False: 900.0}


class CannotFork(OSError):
    """The process cannot be forked, for lack of memory or of process ids."""


class ChildLost(RuntimeError):
    """The child ended without a result."""


class _ChildTraceback(Exception):
    """Carries the child's traceback as the cause of the error raised in the parent."""


def can_fork() -> bool:
    """Return whether forked work is supported: on Linux only.

    There a child can be killed together with its parent. On other systems forks of a process with threads are
    unreliable.
    """
    return sys.platform == "linux"


class ForkedWork:
    """Work that is running in a forked child, created by `fork`."""

    def __init__(self, pid: int, answers: int) -> None:
        self.pid = pid
        self._answers = answers
        self._unwanted = False
        self._ended = ""  # why this process killed the child

    def wait(self) -> None:
        """Wait for the child; an error of the work is raised here."""
        # Read before the child is waited for: a child with a long answer blocks on the pipe until it is read.
        try:
            answer = self._listen()
        finally:
            # In this order even after an error, so that neither the descriptor nor a zombie is left behind.
            os.close(self._answers)
            how = self._reap()
        try:
            result = json.loads(answer)
        # A killed child leaves an empty or incomplete answer.
        except ValueError:
            raise ChildLost(f"the process that wrote it {how}") from None
        for name, level, line in result["log"]:
            # Logged as a finished text, so that a `%` in it is not interpreted.
            logging.getLogger(name).log(level, "%s", line)
        _raise(result["error"])

    def give_up(self) -> None:
        """Let `wait`, which runs in another thread, kill the child soon and raise ChildLost.

        Only that thread may send the signal: once it has waited for the child, the process id may belong to another
        process.
        """
        self._unwanted = True

    def _listen(self) -> bytes:
        """Return the bytes that the child writes before it ends; kill the child if it hangs or is no longer wanted."""
        answer = b""
        asleep_since, cpu = time.monotonic(), -1.0
        while True:
            if select.select([self._answers], [], [], _SECONDS_BETWEEN_POLLS)[0]:
                chunk = os.read(self._answers, 1 << 16)  # the capacity of a pipe on Linux
                if not chunk:
                    return answer
                answer += chunk
                continue
            state, used = _activity(self.pid)
            # A zombie has exited, and waits to be collected by `_reap`.
            if state in ("Z", "gone"):
                return answer  # the pipe is not at its end because another process has inherited it
            # Only sleep without any CPU time counts: a child that compresses or waits for the disk now and then is
            # working.
            if state != "S" or used != cpu:
                asleep_since, cpu = time.monotonic(), used
            if self._unwanted or time.monotonic() - asleep_since > _longest_sleep(self.pid):
                self._ended = "was canceled" if self._unwanted else "was blocked"
                os.kill(self.pid, signal.SIGKILL)

    def _reap(self) -> str:
        """Wait for the child's exit status and describe how it ended."""
        try:
            status = os.waitpid(self.pid, 0)[1]
        except ChildProcessError:
            return "has ended"  # the program itself waits for all children
        if self._ended:
            return f"{self._ended}, and was ended"
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            return f"ended with code {code}"
        hint = ": is the machine short of memory?" if code == -signal.SIGKILL else ""
        return f"was ended by {signal.Signals(-code).name}{hint}"


def fork(work: Callable[[], None]) -> ForkedWork:
    """Start `work` in a forked child."""
    parent = os.getpid()
    reading, writing = os.pipe()
    # All signals stay blocked in the child: no handler of the program may run there, not even between two lines of this
    # function.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings():
            # Python 3.12 and later warn when a process with threads forks. The module docstring says why this fork is
            # safe.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            try:
                signal_when_parent_ends(signal.SIGKILL)
                # Otherwise the parent ended before the kernel was asked to send a signal for that.
                if os.getppid() == parent:
                    _run_in_child(work, writing)
            # Reached only if the parent has died or `_run_in_child` could not even report an error.
            finally:
                os._exit(1)
    except OSError as error:
        os.close(reading)
        raise CannotFork(error.errno, f"the process could not be copied: {error.strerror}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(writing)
    return ForkedWork(pid, reading)


def _run_in_child(work: Callable[[], None], writing: int) -> NoReturn:
    """Run the work in the child, send the result through the pipe and exit."""
    lines: list[tuple[str, int, str]] = []
    answer: dict[str, Any] = {"log": lines, "error": None}
    try:
        gc.disable()
        logging.Logger.handle = _collecting_handler(lines)  # type: ignore[assignment, method-assign]
        # A process that waits for the end of a pipe or connection of the parent must not wait for the child.
        os.closerange(3, writing)
        os.closerange(writing + 1, os.sysconf("SC_OPEN_MAX"))
        work()
    except BaseException as error:  # noqa: BLE001  (raised in the parent)
        answer["error"] = _described(error)
    # Sent as JSON, because an exception may hold objects that cannot be pickled.
    left = json.dumps(answer).encode()
    while left:
        # A write to a pipe may be partial.
        left = left[os.write(writing, left) :]
    os._exit(0)


def _collecting_handler(lines: list[tuple[str, int, str]]) -> Callable[[logging.Logger, logging.LogRecord], None]:
    """Return a replacement for Logger.handle that collects records instead of writing them."""

    def handle(logger: logging.Logger, record: logging.LogRecord) -> None:
        """Collect the record as a text: its arguments may be objects that cannot be sent to the parent."""
        lines.append((record.name, record.levelno, record.getMessage()))

    return handle


def _described(error: BaseException) -> dict[str, Any]:
    """Return an exception as JSON-compatible data."""
    described: dict[str, Any] = {"type": type(error).__name__, "message": str(error), "trace": traceback.format_exc()}
    if isinstance(error, OSError) and error.errno is not None:
        filename = None if error.filename is None else os.fsdecode(error.filename)
        described |= {"errno": error.errno, "message": error.strerror, "filename": filename}
    return described


def _raise(described: dict[str, Any] | None) -> None:
    """Raise the exception that `_described` turned into data."""
    if described is None:
        return
    if "errno" in described:
        # OSError with the same number is raised as the same subclass, so that a full disk is recognized as such.
        error: Exception = OSError(described["errno"], described["message"], described["filename"])
    else:
        error = RuntimeError(f"{described['type']}: {described['message']}")
    # The child's traceback is the cause, because that of the parent shows nothing about the error.
    raise error from _ChildTraceback(described["trace"])


def _longest_sleep(pid: int) -> float:
    """Return after how many seconds of sleep the child counts as hanging."""
    try:
        with open(f"/proc/{pid}/wchan") as file:
            return _SECONDS_ASLEEP["futex" in file.read()]
    # Not readable under some security settings: then only the long limit applies.
    except OSError:
        return _SECONDS_ASLEEP[False]


def _activity(pid: int) -> tuple[str, float]:
    """Return the state of a process and the CPU time it has used.

    A sleeping process whose CPU time does not grow is waiting.
    """
    try:
        with open(f"/proc/{pid}/stat") as file:
            # After the last parenthesis, because the name of the program may contain any character.
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "gone", 0.0
    # User and system time in clock ticks: fields 14 and 15 of proc(5), counted from the state, which is field 3.
    return fields[0], float(fields[11]) + float(fields[12])
