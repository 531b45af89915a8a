"""Start Python programs as forks of an interpreter that has already imported torch, in place of fresh interpreters.

Starting Python and importing torch takes about two seconds of CPU, which was most of what the test suite did. `Popen`
and `run` are those of `subprocess` for commands that begin with `sys.executable`:

    done = warm.run([sys.executable, "train.py"], cwd=tmp_path, env={**os.environ, "X": "1"}, capture_output=True)

The program is a real process with its own session, environment, directory, streams, signals and exit code: the same
mechanism starts the trials of an experiment (`determined.engines.warm.job`), and falls back to a fresh interpreter when
a variable such as LD_PRELOAD or PYTHONHASHSEED makes a difference. Tests about start-up itself or about orphans use
`subprocess`.

The processes that such a program starts in turn, such as the queue daemon and the warm process of an engine, are forked
from the warm interpreter as well, and are children of the program as usual (`tests.helpers.warm_children`). With
`children`, so are those that pytest itself starts.
"""

from __future__ import annotations

import atexit
import functools
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from determined.engines.warm import messages
from tests.helpers import leaks, shown_process, warm_children
from tests.helpers.warm_children import SET_BY_IMPORTS

_REPOSITORY = Path(__file__).resolve().parents[2]


class Popen(subprocess.Popen[str]):
    """`subprocess.Popen` whose process is forked from the warm interpreter.

    Only the two methods of the standard class that start a process and wait for it are replaced: both work on a
    connection to the server, because the process is the server's child and not ours.
    """

    _connection: socket.socket
    _exit_status: int | None = None

    def __init__(self, *args: Any, controlling_terminal: bool = False, **options: Any) -> None:
        """Start the process; with `controlling_terminal`, a key such as Ctrl-C in its stdin sends it a signal."""
        self._controlling_terminal = controlling_terminal
        super().__init__(*args, **options)

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *rest: Any) -> None:
        # The other arguments may be positional: see the definition in the standard library.
        close_fds, pass_fds, cwd, env = rest[:4]
        pipes = rest[7:13]
        if preexec_fn is not None or pass_fds or not close_fds or isinstance(args, str):
            raise ValueError("a warm process takes a list of arguments, and neither preexec_fn nor pass_fds")
        streams = [given if given != -1 else own for own, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        request = {
            "argv": [os.fsdecode(word) for word in args],
            "environment": dict(os.environ if env is None else env),
            "directory": os.path.abspath(cwd or os.getcwd()),
            "controlling_terminal": self._controlling_terminal,
        }
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_server_address())
        messages.send(self._connection, request, tuple(streams))
        answer = messages.receive(self._connection)
        if answer is None:
            raise OSError(f"the warm interpreter ended before it started {args}")
        self.pid = answer[0]["pid"]
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._exit_status is None:
            if wait_flags and not select.select([self._connection], [], [], 0)[0]:
                return 0, 0
            answer = messages.receive(self._connection)
            self._connection.close()
            if answer is None:
                raise ChildProcessError(f"the warm interpreter ended before process {self.pid}")
            self._exit_status = int(answer[0]["status"])
        return self.pid, self._exit_status

    def _internal_poll(self, _deadstate: int | None = None, *_: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid == self.pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def run(
    command: Sequence[str | Path],
    *,
    timeout: float | None = None,
    check: bool = False,
    capture_output: bool = False,
    input: str | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as `subprocess.run` does."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with Popen(command, **options) as process:
        try:
            stdout, stderr = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)
    if check:
        done.check_returncode()
    return done


@contextmanager
def children() -> Iterator[None]:
    """Fork the daemons and the warm processes of engines that this process starts, in place of fresh interpreters."""

    def ask(request: dict[str, Any], files: tuple[int, ...]) -> int:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(_server_address())
            messages.send(connection, request, files)
            answer = messages.receive(connection)
        if answer is None:
            raise OSError("the warm interpreter ended before it started a process")
        return int(answer.message["pid"])

    undo = warm_children.replace_starts(ask, warm_children.OF_PYTEST)
    try:
        yield
    finally:
        undo()


@functools.cache
def commands() -> Path:
    """Return a directory with the commands `python`, `python3` and `det`, for the PATH of a shell."""
    address = _server_address()
    directory = Path(address).parent / "bin"
    directory.mkdir()
    det = str(Path(sys.executable).with_name("det"))
    for name, command in {"python": [], "python3": [], "det": [det]}.items():
        path = directory / name
        path.write_text(
            f"#!{sys.executable} -IS\n"
            "import sys\n"
            f"sys.path[:0] = [{str(_REPOSITORY)!r}, {str(_REPOSITORY / 'src')!r}]\n"
            "from tests.helpers.warm_command import main\n"
            f"main({address!r}, [{sys.executable!r}, *{command!r}, *sys.argv[1:]])\n"
        )
        path.chmod(0o755)
    return directory


@functools.cache
def _server_address() -> str:
    """Start the server of this pytest process, and return the path of its socket."""
    with leaks.shared():
        return _start_server()


def _start_server() -> str:
    directory = tempfile.mkdtemp(prefix="warm-")
    address = f"{directory}/socket"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    with listener:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.warm_server", str(listener.fileno()), directory, shown_process.SPACE],
            cwd=_REPOSITORY,
            env={
                **_without(("DET_", "PYTEST_", "XDG_", *SET_BY_IMPORTS), os.environ),
                shown_process.VARIABLE: shown_process.SPACE,
            },
            stdin=subprocess.DEVNULL,
            pass_fds=(listener.fileno(),),
            start_new_session=True,
        )
    leaks.starts_processes_for_tests(server.pid)
    atexit.register(_stop, server, directory)
    return address


def _without(prefixes: tuple[str, ...], environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(prefixes)}


def _stop(server: subprocess.Popen[bytes], directory: str) -> None:
    server.kill()
    server.wait()
    shutil.rmtree(directory, ignore_errors=True)
