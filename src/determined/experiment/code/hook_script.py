"""Run a startup hook: bash sources it, its output goes to a file, and its exported variables are read afterwards."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from determined.config.secrets.line_mask import LineMask, line_mask
from determined.engines.base import Line
from determined.engines.lines import Stream
from determined.engines.supervised_command import supervised, terminate
from determined.errors import StartupHookError
from determined.experiment.code.directories import HOOK

# This many lines fit into an error message.
_LAST_LINES = 20
# How long a stop request may go unnoticed while the hook prints nothing.
_SECONDS_BETWEEN_POLLS = 0.1
# Set by every shell, so that their values say nothing about the hook.
_OF_THE_SHELL = {"_", "SHLVL", "PWD", "OLDPWD"}


class HookStopped(Exception):
    """The hook was stopped because its experiment is to pause or end."""


@dataclass(frozen=True)
class HookResult:
    """The variables that a hook exported, its final directory, its exit code and its last lines."""

    code: int
    variables: dict[str, str]
    unset: frozenset[str]
    directory: str | None
    last_lines: tuple[str, ...]


def run_hook(
    directory: Path, environment: Mapping[str, str], log: Path, stopped: Callable[[], bool] = lambda: False
) -> HookResult:
    """Source the hook of a directory in bash with these variables.

    Secrets are masked in the log and in the result's lines.

    `stopped` is called several times a second: when it returns True, the hook is killed and HookStopped is raised.
    Processes that the hook leaves in the background are killed with it.
    """
    bash, env = shutil.which("bash"), shutil.which("env")
    if bash is None or env is None:
        missing = "bash" if bash is None else "env"
        raise StartupHookError(f"{HOOK} needs {missing}, which is not installed: install it, or use --no-startup-hook")
    # An unlinked file: exported variables may contain secrets, which must not stay on disk.
    with tempfile.TemporaryFile() as exported:
        # Tracing is switched off, so that these commands do not appear in the log after `set -x`.
        record = f"{{ set +x; }} 2>/dev/null; {shlex.quote(env)} -0 >&{exported.fileno()}; pwd -P >&{exported.fileno()}"
        # In a trap, so that the variables are also recorded if the hook calls `exit`, and for masking if it fails.
        script = f"trap {shlex.quote(record)} EXIT\nset -e\n. ./{HOOK}\n"
        code = _run([bash, "-c", script, HOOK], directory, environment, log, exported, stopped)
        # The child shares the position in the file.
        exported.seek(0)
        after, final_directory = _parse(exported.read())
    # Again after the run, because only now the exported variables are known.
    _mask(log, {**environment, **after})
    last = deque((text for _, text in log_lines(log)), maxlen=_LAST_LINES)
    kept = {name: value for name, value in after.items() if name not in _OF_THE_SHELL}
    changed = {name: value for name, value in kept.items() if environment.get(name) != value}
    # Without a recorded environment nothing is known to be unset.
    unset = frozenset(environment.keys() - kept.keys() - _OF_THE_SHELL) if after else frozenset()
    return HookResult(code, changed, unset, final_directory, tuple(last))


def log_lines(log: Path) -> Iterator[tuple[float, str]]:
    """Yield time and text of each line of a hook's output."""
    try:
        with log.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                written, _, text = line.rstrip("\n").partition(" ")
                yield float(written), text
    except FileNotFoundError:
        return


def _run(
    argv: list[str],
    directory: Path,
    environment: Mapping[str, str],
    log: Path,
    exported: IO[bytes],
    stopped: Callable[[], bool],
) -> int:
    """Run a command under supervision and write its output to the log; return its exit code."""
    reading, writing = os.pipe()
    stream = Stream(HOOK, "stderr", reading)
    mask = line_mask(environment)
    try:
        with _private_file(log) as file:
            try:
                process = supervised(argv, environment, directory, output=writing, keep_open=[exported.fileno()])
            # The child has its own copy; held open here, the pipe would never end.
            finally:
                os.close(writing)
            try:
                while process.poll() is None:
                    if stopped():
                        raise HookStopped
                    _write(_wait_for_lines(stream, process), mask, file)
                # The rest was written between the last poll and the exit.
                _write(stream.read_all(), mask, file)
            finally:
                terminate(process)
    finally:
        stream.close()
    return process.returncode


def _wait_for_lines(stream: Stream, process: subprocess.Popen[bytes]) -> list[Line]:
    """Return the lines that the hook has written; wait a short time for the first one."""
    if stream.ended:  # the hook has closed its output
        # Waited for here, since a closed pipe is always readable and would make the loop spin.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_BETWEEN_POLLS)
        return []
    select.select([stream.file], [], [], _SECONDS_BETWEEN_POLLS)
    return stream.read()


def _write(lines: list[Line], mask: LineMask, file: IO[str]) -> None:
    """Write lines with their times to the log, with secrets masked."""
    for line in lines:
        file.write(f"{line.written:.3f} {mask(line.text)}\n")
    file.flush()


def _mask(log: Path, variables: Mapping[str, str]) -> None:
    """Mask the secrets that the hook exported, which were unknown while it wrote."""
    mask = line_mask(variables)
    # A new file and a rename: a reader never sees half of the log.
    draft = log.with_suffix(".new")
    with _private_file(draft) as file:
        for written, text in log_lines(log):
            file.write(f"{written:.3f} {mask(text)}\n")
    os.replace(draft, log)


def _private_file(path: Path) -> IO[str]:
    """Open a new file for writing that only its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    return open(descriptor, "w", encoding="utf-8")


def _parse(data: bytes) -> tuple[dict[str, str], str | None]:
    """Parse the output of `env -0; pwd -P`; empty if the hook has replaced the trap that writes it."""
    # `pwd` follows the last NUL of `env -0`.
    *entries, directory = data.split(b"\0")
    variables = {}
    for entry in entries:
        name, equals, value = os.fsdecode(entry).partition("=")
        if equals:
            variables[name] = value
    return variables, os.fsdecode(directory).removesuffix("\n") or None
