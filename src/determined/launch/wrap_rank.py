"""Run a command and put `[rank=N] ` before each line that it writes.

    python -m determined.launch.wrap_rank [--no-redirect-stdio] RANK [--] COMMAND [ARGUMENTS]

RANK is a number, or names of environment variables separated by commas, of which the first that is set is used.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping

from determined.kernel import signal_when_parent_ends
from determined.output_lines import LineSplitter, SplitLine

_BLOCK = 64 * 1024  # the capacity of a pipe on Linux; a longer line is split
# The command has its own process group, so that signals to the group of this process do not reach it directly.
_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH")
_GRACE_SECONDS = 3.0  # between the forwarded signal and SIGKILL after the launcher has exited


def main(arguments: list[str]) -> int:
    """Run the command, prefix the lines of its output, and return its exit code."""
    redirect = True
    if arguments and arguments[0] == "--no-redirect-stdio":
        redirect, arguments = False, arguments[1:]
    if arguments[1:2] == ["--"]:
        arguments = [arguments[0], *arguments[2:]]
    if len(arguments) < 2:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    rank = find_rank(arguments[0], os.environ)
    parent = os.getppid()
    # SIGTERM: this process still has to end the command.
    signal_when_parent_ends(signal.SIGTERM)
    pipe = subprocess.PIPE if redirect else None
    # In a separate process group: a signal to our group must not reach the command twice, directly and forwarded.
    process = subprocess.Popen(
        arguments[1:], stdout=pipe, stderr=pipe, preexec_fn=_become_worker if os.name == "posix" else None
    )

    # A timer and not a sleep: a signal handler must return at once.
    killing = threading.Timer(_GRACE_SECONDS, process.kill)
    killing.daemon = True

    def forward(number: int, _frame: object) -> None:
        """Send a signal to the command, and kill the command later if the launcher has exited."""
        # `ident` is set once the thread was started; a timer can be started only once.
        if killing.ident is not None:  # started already: PDEATHSIG is sent for each thread of the launcher that ends
            return
        process.send_signal(number)
        if os.getppid() != parent:  # the launcher has exited, so no other process will kill the command
            killing.start()

    for name in _FORWARDED:
        signal.signal(getattr(signal, name), forward)
    prefix = f"[rank={rank}] ".encode()
    copies = [
        # Two threads, because a program that fills one pipe would block while the other is read.
        threading.Thread(target=_copy_lines, args=(source.fileno(), target, prefix), daemon=True)
        for source, target in ((process.stdout, 1), (process.stderr, 2))
        if source is not None
    ]
    for copy in copies:
        copy.start()
    code = process.wait()
    for copy in copies:
        copy.join(5.0)  # limited, because a process that the command left behind may keep the pipe open
    return 128 - code if code < 0 else code


def find_rank(spec: str, env: Mapping[str, str]) -> int:
    """Return the rank: `spec` itself if it is a number, else the value of the first variable it lists that has one."""
    if spec.isdecimal():
        return int(spec)
    for name in spec.split(","):
        if env.get(name, "").isdecimal():
            return int(env[name])
    raise ValueError(f"wrap_rank: none of the environment variables {spec} holds a rank")


def _copy_lines(source: int, target: int, prefix: bytes) -> None:
    """Copy lines from one file descriptor to another with a prefix; `~` marks the present state of a progress bar."""
    splitter = LineSplitter(_BLOCK)
    show_states = not os.isatty(target)  # several ranks cannot rewrite lines of one terminal

    def write(lines: list[SplitLine]) -> None:
        shown = [line for line in lines if line.finished or show_states]
        _write(target, b"".join((b"" if line.finished else b"~") + prefix + line.text + b"\n" for line in shown))

    while block := os.read(source, _BLOCK):
        write(splitter.feed(block, time.monotonic()))
    write(splitter.flush())


def _write(target: int, text: bytes) -> None:
    """Write bytes completely: a pipe accepts only part of a large text at once."""
    while text:
        text = text[os.write(target, text) :]


def _become_worker() -> None:
    """Put the child process into a group of its own, ignore SIGUSR1, and let the process die with its parent."""
    os.setpgid(0, 0)
    # SIGUSR1 requests a stack dump. Ignored by default, because it would kill programs that have no handler for it.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    # SIGKILL, since no process is left that could forward a signal or kill it later.
    signal_when_parent_ends(signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
