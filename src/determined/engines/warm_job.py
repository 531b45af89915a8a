"""The life of a job's main process: a copy of the warm process that behaves like a fresh interpreter.

What a fresh interpreter would do otherwise is done here: a session, signals, environment, paths, random numbers, a
`__main__` of its own; and at the end threads, exit functions and buffers. Where that cannot be done after the fact, as
with variables that are read when Python or torch starts, the process becomes a fresh interpreter.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import io
import multiprocessing
import multiprocessing.process
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from determined.engines import libraries, program
from determined.engines.command import Program, as_argv
from determined.engines.freshness import needs_fresh_interpreter, python_path
from determined.engines.kernel import collect_orphans, signal_when_parent_ends
from determined.engines.orders import Order

_FIRST_TO_GO = b"500"  # when memory is short, a job shall be ended, and not the runner


@dataclass(frozen=True)
class Warmth:
    """What a copy must know about the process that it comes from."""

    pid: int
    read_at_start: dict[str, str]  # the variables that only a fresh interpreter could be given differently
    path: list[str]  # where modules are found, without what the environment adds


def live(encoded: bytes, output: tuple[int, int], warmth: Warmth) -> NoReturn:
    """Run the job of an encoded order to its end; its standard output and error go to these files."""
    code = 1
    try:
        _separate(output, warmth)
        order = Order.decode(encoded)
        os.chdir(order.directory)
        command = order.command
        if isinstance(command, Program) or needs_fresh_interpreter(command, order.environment, warmth.read_at_start):
            _become(as_argv(command), order.environment)
        _refresh(order.environment, warmth)
        code = program.run(command)
    except BaseException:  # noqa: BLE001  (of ours, not of the job: shown, and the process ends)
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _separate(output: tuple[int, int], warmth: Warmth) -> None:
    os.setsid()
    signal_when_parent_ends(signal.SIGKILL)
    if os.getppid() != warmth.pid:  # it died before it could be told
        os._exit(1)
    collect_orphans()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as score:
        score.write(_FIRST_TO_GO)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for file, target in zip(output, (1, 2), strict=True):
        os.dup2(file, target)
        os.close(file)


def _become(argv: list[str], environment: Mapping[str, str]) -> NoReturn:
    """Turn into another program."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # a program that shows no stacks shall not die of being asked
    try:
        os.execvpe(argv[0], argv, {"PYTHONUNBUFFERED": "1", **environment})
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(127 if error.errno == errno.ENOENT else 126)


def _refresh(environment: dict[str, str], warmth: Warmth) -> None:
    """Forget what belongs to the warm process, as if this one had just started."""
    _replace_environment(environment)
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.enable(file=2)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
    sys.stdout = sys.__stdout__ = _text_stream(1, "<stdout>", "strict")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _text_stream(2, "<stderr>", "backslashreplace")  # type: ignore[misc]
    sys.path[:] = [*python_path(environment), *warmth.path]
    tempfile.tempdir = None
    multiprocessing.process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]
    multiprocessing.current_process().authkey = os.urandom(32)
    warnings.onceregistry.clear()  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        pass  # what was shown once may be shown again
    libraries.refresh(environment)


def _replace_environment(environment: dict[str, str]) -> None:
    """Give this process these variables; those that it has already stay untouched, because every change has a cost."""
    present = dict(os.environ)
    for name in present:
        if name not in environment:
            del os.environ[name]
    for name, value in environment.items():
        if present.get(name) != value:
            os.environ[name] = value


def _text_stream(file: int, name: str, errors: str) -> io.TextIOWrapper:
    """A stream whose lines do not wait: somebody may be watching, and the process may die."""
    raw = io.FileIO(file, "w", closefd=False)
    raw.name = name
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors=errors, line_buffering=True)
