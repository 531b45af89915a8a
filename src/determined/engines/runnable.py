"""Translate a command into the script, module or program that is started for it."""

from __future__ import annotations

from determined.engines.command import Command, Harness, Module, Program, Script, Shell, as_argv


def runnable(command: Command, slots: int) -> Script | Module | Program:
    """Return what to start for a command. A trial class becomes the module that trains it on all of its slots."""
    if isinstance(command, Harness):
        if slots > 1:
            return Module(("determined.launch.torch_distributed", "--trial", command.trial))
        return Module(("determined.exec.harness", command.trial))
    if isinstance(command, Shell):
        return Program(tuple(as_argv(command)))
    return command
