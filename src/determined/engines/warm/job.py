"""Turn a fork of the warm process into a job's main process that behaves like a new interpreter.

A new session, signals, environment, paths, random numbers and a new `__main__` are set up at the start; threads, exit
functions and buffers are handled at the end. Where that is impossible after the fact, as with variables that are read
when Python or torch starts, the process executes a new interpreter.
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

from determined.engines.command import Program, as_argv
from determined.engines.warm import libraries, program
from determined.engines.warm.fork_compatibility import needs_fresh_interpreter, python_path
from determined.engines.warm.job_request import JobRequest
from determined.kernel import become_subreaper, signal_when_parent_ends
from determined.stack_dumps import print_stacks_on

# When memory is short, the kernel must kill a job rather than the runner, whose score is 0.
_OUT_OF_MEMORY_SCORE = b"500"


@dataclass(frozen=True)
class WarmFacts:
    """Data of the warm process that a forked job needs: its pid, startup variables and `sys.path`."""

    pid: int
    read_at_start: dict[str, str]  # startup variables of the warm process; other values need a new interpreter
    path: list[str]  # sys.path without the entries of PYTHONPATH


def run_job(encoded: bytes, output: tuple[int, int], facts: WarmFacts) -> NoReturn:
    """Run the job of an encoded request and exit; `output` are its standard output and standard error."""
    code = 1
    try:
        # First of all: until then signals to the warm process, and its output, would be shared.
        _separate(output, facts)
        request = JobRequest.decode(encoded)
        os.chdir(request.directory)
        command = request.command
        if isinstance(command, Program) or needs_fresh_interpreter(command, request.environment, facts.read_at_start):
            _execute(as_argv(command), request.environment)
        _reset_interpreter(request.environment, facts)
        code = program.run(command)
    # Printed to the job's own standard error, where the user looks for it.
    except BaseException:  # noqa: BLE001  (an error of this library: print it and exit)
        sys.excepthook(*sys.exc_info())
    finally:
        # Never return into the server's loop, which the fork has inherited.
        os._exit(code)


def _separate(output: tuple[int, int], facts: WarmFacts) -> None:
    """Make this fork independent: a new session, default signal handlers, and the job's own output."""
    # A separate session and process group: SIGINT sent to the group reaches this job and no other process.
    os.setsid()
    # A job must not outlive the warm process, which would no longer report it.
    signal_when_parent_ends(signal.SIGKILL)
    if os.getppid() != facts.pid:  # it ended before the kernel was asked to send a signal for that
        os._exit(1)
    # Daemons that the program starts stay below this process, where they are found and killed.
    become_subreaper()
    # Missing on systems other than Linux; it only improves which process is killed.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as score:
        score.write(_OUT_OF_MEMORY_SCORE)
    # The warm process ignores or handles these.
    # Ray starts its workers with SIGINT blocked, and every process below them would inherit that.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for file, target in zip(output, (1, 2), strict=True):
        os.dup2(file, target)
        os.close(file)


def _execute(argv: list[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by another program."""
    # Python ignores these two signals, and an executed program would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    # A program without a handler must not be terminated by a request for stacks.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        # Python programs of the user print without delay, like those that run in the fork.
        os.execvpe(argv[0], argv, {"PYTHONUNBUFFERED": "1", **environment})
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        # The exit codes of a shell: 127 not found, 126 not executable.
        os._exit(127 if error.errno == errno.ENOENT else 126)


def _reset_interpreter(environment: dict[str, str], facts: WarmFacts) -> None:
    """Reset the state inherited from the warm process, as if this interpreter had just started."""
    _replace_environment(environment)
    # TZ may differ, and the C library reads it only once.
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.enable(file=2)
    # The runner asks for stacks by this signal before it kills a process that hangs.
    print_stacks_on(signal.SIGUSR1, 2)
    sys.stdout = sys.__stdout__ = _text_stream(1, "<stdout>", "strict")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _text_stream(2, "<stderr>", "backslashreplace")  # type: ignore[misc]
    sys.path[:] = [*python_path(environment), *facts.path]
    # TMPDIR may differ.
    tempfile.tempdir = None
    multiprocessing.process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]
    # A separate key: otherwise all jobs would share that of the warm process.
    multiprocessing.current_process().authkey = os.urandom(32)
    warnings.onceregistry.clear()  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        pass  # entering the context invalidates the registries of modules: warnings are shown again
    libraries.reset(environment)


def _replace_environment(environment: dict[str, str]) -> None:
    """Set the environment of this process; unchanged variables are not written, because every write has a cost."""
    present = dict(os.environ)
    # Deleted one by one: replacing os.environ would leave the environment of the C library as it was.
    for name in present:
        if name not in environment:
            del os.environ[name]
    for name, value in environment.items():
        if present.get(name) != value:
            os.environ[name] = value


def _text_stream(file: int, name: str, errors: str) -> io.TextIOWrapper:
    """Return a line-buffered text stream: lines must arrive immediately, and survive if the process is killed."""
    raw = io.FileIO(file, "w", closefd=False)
    raw.name = name
    # UTF-8 for every locale, since the engine decodes it so.
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors=errors, line_buffering=True)
