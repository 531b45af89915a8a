"""The server behind `tests.helpers.warm`: imports torch once, then forks a process for each request."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import itertools
import os
import selectors
import signal
import socket
import sys
import termios
from pathlib import Path
from typing import Any

from determined.engines.command import Module, Program, Script
from determined.engines.warm import messages
from determined.engines.warm.job import WarmFacts, run_job
from determined.engines.warm.job_request import JobRequest
from determined.engines.warm.server import _warm_up
from tests.helpers import shown_process, warm_children
from tests.helpers.warm_children import SET_BY_IMPORTS

_numbers = itertools.count()


def main(listener: socket.socket, directory: Path) -> None:
    """Serve until the process that started the server ends."""
    parent = os.pidfd_open(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.dont_write_bytecode = True  # programs may run in directories of the repository
    for name in ("pytest", "sklearn.datasets"):  # imported by test modules and by the examples
        importlib.import_module(name)
    for name in [name for name in os.environ if name.startswith("KMP_")]:
        del os.environ[name]  # added by scikit-learn
    facts = _warm_up()
    warm_children.set_up_server(directory)
    shown_process.find_space()
    wake, waking = socket.socketpair()
    wake.setblocking(False)
    waking.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    clients: dict[int, socket.socket] = {}
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    selector.register(wake, selectors.EVENT_READ)
    selector.register(parent, selectors.EVENT_READ)  # readable when pytest has ended, also after SIGKILL
    while True:
        ready = [key.fileobj for key, _ in selector.select()]
        if parent in ready:
            return
        if wake in ready:
            wake.recv(4096)
        if listener in ready:
            client, _ = listener.accept()
            received = messages.receive(client)
            if received is not None:
                request, streams, _ = received
                if "is_detached" in request:  # a child of pytest, or an orphan
                    with client:
                        _send(client, {"pid": warm_children.start(request, streams, facts, directory)})
                    continue
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    for end in (listener, wake, waking, client, *clients.values()):
                        end.close()
                    _run(request, streams, facts, directory)
                for stream in streams:
                    os.close(stream)
                clients[pid] = client
                _send(client, {"pid": pid})
        _report_exits(clients)


def _report_exits(clients: dict[int, socket.socket]) -> None:
    while clients:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with clients.pop(pid) as client:
            _send(client, {"status": status})


def _send(client: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(ConnectionError):  # the test has given up the process, or has ended
        messages.send(client, message)


def _run(request: dict[str, Any], streams: list[int], facts: WarmFacts, directory: Path) -> None:
    stdin, stdout, stderr = streams
    os.dup2(stdin, 0)
    os.close(stdin)
    if request["controlling_terminal"]:
        _control_terminal()
    environment = {name: value for name, value in request["environment"].items() if not name.startswith(SET_BY_IMPORTS)}
    shown_process.show_variables(environment)
    command = _command(request["argv"], environment, request["directory"], directory)
    if warm_children.may_start_others(request["argv"][1:]):
        warm_children.prepare(facts, directory)
    if request["controlling_terminal"]:
        # `run_job` calls it first, and a session cannot be created twice. Not before the zygote was forked, whose
        # children need sessions of their own: Ctrl-C on the terminal would interrupt trials.
        vars(os)["setsid"] = lambda: None
    run_job(JobRequest(command, environment, request["directory"]).encode(), (stdout, stderr), facts)


def _control_terminal() -> None:
    """Make the terminal on standard input the controlling terminal of a new session."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _command(argv: list[str], environment: dict[str, str], cwd: str, directory: Path) -> Script | Module | Program:
    if argv[0] != sys.executable or argv[1:2] == [] or (argv[1].startswith("-") and argv[1] not in ("-c", "-m")):
        return Program(tuple(argv))  # another program, or an option of the interpreter
    if argv[1] == "-m":
        return Module(tuple(argv[2:]))
    if argv[1] == "-c":
        program = directory / f"program-{os.getpid()}-{next(_numbers)}.py"
        program.write_text(argv[2])
        # `python -c` looks for modules in the current directory first.
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [cwd, environment.get("PYTHONPATH")]))
        return Script((str(program), *argv[3:]))
    return Script(tuple(argv[1:]))


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]))
