"""What is started for a command on a machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from determined.engines.command import Command, Harness, Module, Program, Script, Shell, as_argv

_HOOK = "startup-hook.sh"
_AFTER_THE_HOOK = f'set -e; . ./{_HOOK}; set +e; exec "$@"'


def runnable(command: Command, slots: int) -> Script | Module | Program:
    """The command as something to start: a trial class by the module that trains it, on all of its slots."""
    if isinstance(command, Harness):
        if slots > 1:
            return Module(("determined.launch.torch_distributed", "--trial", command.trial))
        return Module(("determined.exec.harness", command.trial))
    if isinstance(command, Shell):
        return Program(tuple(as_argv(command)))
    return command


def with_startup_hook(command: Script | Module | Program, directory: Path) -> Script | Module | Program:
    """What the program's directory wants to be done before it, in the shell that becomes the program."""
    if not (directory / _HOOK).is_file():
        return command
    return Program((shutil.which("bash") or "sh", "-c", _AFTER_THE_HOOK, _HOOK, *as_argv(command)))
