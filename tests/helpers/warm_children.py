"""Let a program start its Python processes as forks of the warm interpreter: daemons, runners, warm processes, ranks.

`det` starts a queue daemon, which starts runners, which start a local engine, whose warm process would import torch
again, and so would each rank of a launcher. Each of them has to be a child of its program, which has threads and open
files by then and cannot be forked itself. So a program gets a zygote before it begins: a child that is still a clean
copy of the warm interpreter, and forks siblings of itself (`fork_sibling`) on request, which are children of the
program. The zygote of pytest is the warm interpreter.

The processes behave as if a fresh interpreter ran them (see `determined.engines.warm.job`). Tests about the start
itself run a program by `subprocess`, which has no zygote, and starts all others as it does outside of tests.
"""

from __future__ import annotations

import dataclasses
import fcntl
import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import psutil

from determined.engines.command import Module, Script, as_argv
from determined.engines.warm import job, messages
from determined.engines.warm.fork_compatibility import needs_fresh_interpreter, read_at_start
from determined.engines.warm.job import WarmFacts
from determined.engines.warm.job_request import JobRequest
from determined.kernel import signal_when_parent_ends
from tests.helpers import shown_process
from tests.helpers.sibling import fork_sibling

# Variables that importing torch or scikit-learn adds to this process, and one that is in force in every warm process.
# If they differed between the server and a program, the program would need a fresh interpreter.
SET_BY_IMPORTS = ("TORCHINDUCTOR_", "KMP_", "PYTHONDONTWRITEBYTECODE")
# Variables of torchrun that are not read on import.
_OF_TORCHRUN = ("TORCHELASTIC_", "TORCH_NCCL_")

# Sends a request and open files to a zygote, and returns the id of the process that it forked.
Ask = Callable[[dict[str, Any], tuple[int, ...]], int]

_ENGINE = "determined.engines.warm.client"
_RUNNER = "determined.queue.runner_process"
_DAEMON = "determined.queue.daemon_start"
_LAUNCHER = "torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler"
# The wrapper of a rank is run as `__main__`, and its own module cannot be changed before. It starts no other processes.
_WRAPPER = "subprocess"
OF_PYTEST = (_ENGINE, _DAEMON)  # modules that start processes in pytest itself
_OF_PROGRAMS = (_ENGINE, _RUNNER, _DAEMON, _LAUNCHER)
# Commands of `det` that may start another process.
_COMMANDS = {"activate", "continue", "create", "fork", "resume", "run", "serve"}
# A launcher forwards some of these to its children, and a terminal the others.
_FORWARDED = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH)
_ZYGOTE = "zygote of"  # as /proc shows it
_HIGH = 500  # files above this number do not collide with one that gets a given number

# `run_job` lets the kernel end a process with its parent, and lets it adopt orphans: both are for trials alone. The
# numbers are those of PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER.
_NO_TRIAL = "import ctypes; [ctypes.CDLL(None).prctl(option, 0, 0, 0, 0) for option in (1, 36)]; del ctypes; "


def may_start_others(words: Sequence[str]) -> bool:
    """Return whether this command is a launcher, or one of `det` that may start a daemon, a runner or an engine."""
    is_det = any("determined.cli" in word or word.endswith("/det") for word in words[:3])
    is_launcher = any(word.startswith(("determined.launch.", "torch.distributed.run")) for word in words[:3])
    return is_launcher or (is_det and not _COMMANDS.isdisjoint(words))


def set_up_server(directory: Path) -> None:
    """Import the modules that start these processes, once for all programs, and let trials that are launchers fork."""
    for name in _OF_PROGRAMS:
        importlib.import_module(name)

    def run_trial(encoded: bytes, output: tuple[int, int], facts: WarmFacts) -> NoReturn:
        if may_start_others(as_argv(JobRequest.decode(encoded).command)):
            prepare(facts, directory)
        job.run_job(encoded, output, facts)

    # The warm processes of engines are forks of this process, and have this function as well.
    vars(importlib.import_module("determined.engines.warm.server"))["run_job"] = run_trial


def replace_starts(ask: Ask, modules: Sequence[str]) -> Callable[[], None]:
    """Let modules of this program that start processes ask a zygote for them; the result undoes it."""

    class Forked(subprocess.Popen[bytes]):
        """`subprocess.Popen` whose process is forked by a zygote."""

        forks_programs_of_users = False

        def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *rest: Any) -> None:
            # The other arguments may be positional: see the definition in the standard library.
            if args[0] != sys.executable or (args[1] != "-c") != self.forks_programs_of_users:
                super()._execute_child(args, executable, preexec_fn, *rest)  # type: ignore[misc]
                return
            _, pass_fds, cwd, env = rest[:4]
            pipes = rest[7:13]
            streams = (given if given != -1 else own for own, given in enumerate((pipes[0], pipes[3], pipes[5])))
            self.pid = ask(_request(args, env, cwd, pass_fds), (*streams, *pass_fds))
            self._child_created = True
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    class ForkedRank(Forked):
        """The same for a rank and its wrapper, which the user gives as a script or a module."""

        forks_programs_of_users = True

    daemon_start = importlib.import_module(_DAEMON)

    def run(args: Any, *, env: Any, cwd: Any, stdin: int, stdout: Any, stderr: Any, pass_fds: Any) -> Any:
        """Start the daemon that the program for the double fork was to start."""
        assert args[4] == daemon_start._DOUBLE_FORK
        request = {**_request(args[6:], env, cwd, pass_fds), "is_detached": True}
        with open(os.devnull) as nothing:
            ask(request, (nothing.fileno(), stdout.fileno(), stderr.fileno(), *pass_fds))
        return subprocess.CompletedProcess(args, 0)

    replaced = [
        (_ENGINE, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": Forked})),
        (_RUNNER, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": Forked})),
        (_DAEMON, "subprocess", SimpleNamespace(**{**vars(subprocess), "run": run})),
        (_LAUNCHER, "Popen", ForkedRank),
        (_WRAPPER, "Popen", ForkedRank),
    ]
    with ExitStack() as undoing:
        for module, name, replacement in replaced:
            if module in modules:
                members = vars(importlib.import_module(module))
                undoing.callback(members.__setitem__, name, members[name])
                members[name] = replacement
        return undoing.pop_all().close


def _request(args: Any, env: Any, cwd: Any, pass_fds: Any) -> dict[str, Any]:
    return {
        "argv": list(args),
        "environment": dict(os.environ if env is None else env),
        "directory": os.path.abspath(cwd or os.getcwd()),
        "passed": list(pass_fds),
        "is_detached": False,
    }


def start(request: dict[str, Any], files: list[int], facts: WarmFacts, directory: Path) -> int:
    """Fork the process of a request in a zygote, and return its id."""
    pid = _fork_orphan() if request["is_detached"] else fork_sibling()
    if pid == 0:
        _become(request, files, facts, directory)
    for file in files:
        os.close(file)
    return pid


def _fork_orphan() -> int:
    """Fork a process whose parent has ended: returns 0 there, and its id here."""
    (number, number_end), (adopted, adopted_end) = os.pipe(), os.pipe()
    between = os.fork()
    if between == 0:
        orphan = os.fork()
        if orphan:
            os.write(number_end, str(orphan).encode())
            os._exit(0)
        os.close(adopted_end)
        os.read(adopted, 1)  # ends when the intermediate process has exited, and this one has another parent
        return 0
    os.waitpid(between, 0)
    pid = int(os.read(number, 100))
    for end in (number, number_end, adopted, adopted_end):
        os.close(end)
    return pid


def _become(request: dict[str, Any], files: list[int], facts: WarmFacts, directory: Path) -> NoReturn:
    """Run the program of a request in this process, which was forked for it."""
    facts = dataclasses.replace(facts, pid=os.getppid())
    for number in _FORWARDED:
        signal.signal(number, signal.SIG_DFL)
    kept = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _HIGH) for file in files]
    _close_all_but(kept)
    stdin, stdout, stderr, *passed = kept
    os.dup2(stdin, 0)
    os.close(stdin)
    for file, number in zip(passed, request["passed"], strict=True):
        os.dup2(file, number)
        os.close(file)
    environment: dict[str, str] = request["environment"]
    command = _command(request["argv"], directory)
    if not needs_fresh_interpreter(command, _in_common(environment), _in_common(facts.read_at_start)):
        facts = dataclasses.replace(facts, read_at_start=read_at_start(environment))
        shown_process.show_variables(environment)
        shown_process.show_command(request["argv"])
        if may_start_others(request["argv"][1:]):
            is_wrapper = "determined.launch.wrap_rank" in request["argv"][:3]
            prepare(facts, directory, (_WRAPPER,) if is_wrapper else _OF_PROGRAMS)
    if request["is_detached"]:
        vars(job)["_separate"] = _separate_orphan
    job.run_job(JobRequest(command, environment, request["directory"]).encode(), (stdout, stderr), facts)


def _separate_orphan(output: tuple[int, int], _: WarmFacts) -> None:
    """Set this process up as for a job, but it must not end with its parent, which may exit at any moment."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for file, target in zip(output, (1, 2), strict=True):
        os.dup2(file, target)
        os.close(file)


def _in_common(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables in which a process may not differ from the one that it is forked from."""
    harmless = (*SET_BY_IMPORTS, *_OF_TORCHRUN)
    return {name: value for name, value in environment.items() if not name.startswith(harmless)}


def _command(argv: list[str], directory: Path) -> Script | Module:
    # torchrun runs scripts with -u, as `run_job` does as well.
    argv = [argv[0], *argv[2:]] if argv[1] == "-u" else argv
    if argv[1] == "-m":
        return Module(tuple(argv[2:]))
    if argv[1] != "-c":
        return Script(tuple(argv[1:]))
    # These programs remove the current directory from sys.path, which is where it would differ from that of a script.
    program = directory / f"child-{os.getpid()}.py"
    program.write_text(_NO_TRIAL + argv[2])
    return Script((str(program), *argv[3:]))


def prepare(facts: WarmFacts, directory: Path, modules: Sequence[str] = _OF_PROGRAMS) -> None:
    """Fork a zygote for this program, which has not begun, and let it start those of these modules."""
    ours, its = socket.socketpair()
    program = os.getpid()
    if os.fork() == 0:
        _serve(its, dataclasses.replace(facts, pid=program), directory)
    its.close()
    lock = threading.Lock()

    def ask(request: dict[str, Any], files: tuple[int, ...]) -> int:
        with lock:
            messages.send(ours, request, files)
            answer = messages.receive(ours)
        if answer is None:
            raise OSError("the zygote of this program has ended")
        return int(answer.message["pid"])

    replace_starts(ask, modules)


def children_of(program: int) -> list[psutil.Process]:
    """Return the children of a program except its zygote."""
    children = psutil.Process(program).children()
    return [child for child in children if not (child.cmdline() or [""])[0].startswith(_ZYGOTE)]


def _serve(connection: socket.socket, facts: WarmFacts, directory: Path) -> NoReturn:
    """Fork processes for a program until it ends."""
    signal_when_parent_ends(signal.SIGKILL)
    if os.getppid() != facts.pid:
        os._exit(0)
    for number in _FORWARDED:  # this process would end
        signal.signal(number, signal.SIG_IGN)
    # A process that waits for the end of the program's output, or for a lock that it holds, would wait for this process
    # as well.
    _close_all_but([connection.fileno()])
    shown_process.show_command((_ZYGOTE, str(facts.pid)))  # not as a second process of the program
    while (received := messages.receive(connection)) is not None:
        messages.send(connection, {"pid": start(received.message, received.files, facts, directory)})
    os._exit(0)


def _close_all_but(kept: list[int]) -> None:
    """Close all files but these and the standard streams, which become /dev/null."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:  # the descriptor with which the directory was listed
                continue
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.close(nothing)
