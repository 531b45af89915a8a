"""Work in a forked copy of this process: it sees memory as it was, while this one goes on and changes it.

A fork has only the thread that forked: a lock that another thread held stays held. So what the child may do is little:
files of its own, and Python code that takes no locks of the program's. It writes to no log (a stream that a thread was
writing to is locked for good: the lines come here, and are logged here) and loads no modules (one that a thread was
loading is locked as well: whoever forks loads all that the work needs before). It never ends through the interpreter's
shutdown, collects no garbage of the program's (finalisers might wait for threads that are not there), does not react to
signals that are meant for this process, and dies with it. A child that sleeps without end all the same is noticed, and
ended.
"""

from __future__ import annotations

import ctypes
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

_PR_SET_PDEATHSIG = 1
_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_ASLEEP = {True: 60.0, False: 900.0}  # for a lock, which nobody will give back; for a slow disk


class CannotFork(OSError):
    """The system makes no copy of this process, for want of memory or of process numbers."""


class ChildLost(RuntimeError):
    """The child ended without an answer."""


class _InTheChild(Exception):
    """Carries the child's traceback as the cause of the error in the parent."""


def can_fork() -> bool:
    """On Linux a child can be made to die with its parent; elsewhere forks beside threads are not to be trusted."""
    return sys.platform == "linux"


class ForkedWork:
    """Work under way in a child; `fork` begins it."""

    def __init__(self, pid: int, answers: int) -> None:
        self.pid = pid
        self._answers = answers
        self._unwanted = False
        self._ended = ""  # why we ended it

    def wait(self) -> None:
        """Wait for the end; an error in the child is raised here."""
        try:
            answer = self._listen()
        finally:
            os.close(self._answers)
            how = self._reap()
        try:
            told = json.loads(answer)
        except ValueError:
            raise ChildLost(f"the process that wrote it {how}") from None
        for name, level, line in told["log"]:
            logging.getLogger(name).log(level, "%s", line)
        _raise(told["error"])

    def give_up(self) -> None:
        """Let `wait`, which runs in another thread, end the child soon and raise ChildLost.

        Only that thread may send the signal: after it has collected the child, the number may be another process's.
        """
        self._unwanted = True

    def _listen(self) -> bytes:
        """Return everything that the child writes before it ends."""
        answer = b""
        asleep_since, cpu = time.monotonic(), -1.0
        while True:
            if select.select([self._answers], [], [], _SECONDS_BETWEEN_LOOKS)[0]:
                chunk = os.read(self._answers, 1 << 16)
                if not chunk:
                    return answer
                answer += chunk
                continue
            state, used = _activity(self.pid)
            if state in ("Z", "gone"):
                return answer  # somebody else has inherited the other end of the pipe
            if state != "S" or used != cpu:
                asleep_since, cpu = time.monotonic(), used
            if self._unwanted or time.monotonic() - asleep_since > _longest_sleep(self.pid):
                self._ended = "was not wanted any more" if self._unwanted else "waited for something that never came"
                os.kill(self.pid, signal.SIGKILL)

    def _reap(self) -> str:
        try:
            status = os.waitpid(self.pid, 0)[1]
        except ChildProcessError:
            return "is gone"  # the program waits for all children itself
        if self._ended:
            return f"{self._ended}, and was ended"
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            return f"ended with code {code}"
        hint = ": is the machine short of memory?" if code == -signal.SIGKILL else ""
        return f"was ended by {signal.Signals(-code).name}{hint}"


def fork(work: Callable[[], None]) -> ForkedWork:
    """Begin `work` in a child."""
    libc = ctypes.CDLL(None, use_errno=True)  # found now: the child shall not search for it
    parent = os.getpid()
    reading, writing = os.pipe()
    # No handler of the program's may run in the child, not even between two lines of this function.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings():
            # Newer Pythons warn about threads at every fork. Why this one is safe is said above.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            try:
                libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() == parent:  # else it died before it could be told
                    _live(work, writing)
            finally:
                os._exit(1)
    except OSError as error:
        os.close(reading)
        raise CannotFork(error.errno, f"the process could not be copied: {error.strerror}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(writing)
    return ForkedWork(pid, reading)


def _live(work: Callable[[], None], writing: int) -> NoReturn:
    """The child's life."""
    lines: list[tuple[str, int, str]] = []
    answer: dict[str, Any] = {"log": lines, "error": None}
    try:
        gc.disable()
        logging.Logger.handle = _keeping(lines)  # type: ignore[assignment, method-assign]
        # Whoever waits for the end of a pipe or a connection of this process shall not wait for the child.
        os.closerange(3, writing)
        os.closerange(writing + 1, os.sysconf("SC_OPEN_MAX"))
        work()
    except BaseException as error:  # noqa: BLE001  (raised in the parent)
        answer["error"] = _described(error)
    left = json.dumps(answer).encode()
    while left:
        left = left[os.write(writing, left) :]
    os._exit(0)


def _keeping(lines: list[tuple[str, int, str]]) -> Callable[[logging.Logger, logging.LogRecord], None]:
    def handle(logger: logging.Logger, record: logging.LogRecord) -> None:
        lines.append((record.name, record.levelno, record.getMessage()))

    return handle


def _described(error: BaseException) -> dict[str, Any]:
    described: dict[str, Any] = {"type": type(error).__name__, "message": str(error), "trace": traceback.format_exc()}
    if isinstance(error, OSError) and error.errno is not None:
        filename = None if error.filename is None else os.fsdecode(error.filename)
        described |= {"errno": error.errno, "message": error.strerror, "filename": filename}
    return described


def _raise(described: dict[str, Any] | None) -> None:
    if described is None:
        return
    if "errno" in described:
        error: Exception = OSError(described["errno"], described["message"], described["filename"])
    else:
        error = RuntimeError(f"{described['type']}: {described['message']}")
    raise error from _InTheChild(described["trace"])


def _longest_sleep(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/wchan") as file:
            return _SECONDS_ASLEEP["futex" in file.read()]
    except OSError:
        return _SECONDS_ASLEEP[False]


def _activity(pid: int) -> tuple[str, float]:
    """The state of a process, and the CPU time that it has used: a sleeper with no more of it waits for somebody."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return "gone", 0.0
    return fields[0], float(fields[11]) + float(fields[12])
