"""Check before an experiment is created that its command exists."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from determined.engines.command import Module, Program, Script, parse_entrypoint
from determined.errors import InvalidExperimentException


def refuse_unknown_program(words: Sequence[str], directory: Path) -> None:
    """Raise InvalidExperimentException if a command (`words`) could not be started in this directory."""
    command = parse_entrypoint(list(words))
    if isinstance(command, Script) and not (directory / command.argv[0]).is_file():
        raise InvalidExperimentException(f"{command.argv[0]}: there is no such file")
    if isinstance(command, Module):
        package = command.argv[0].partition(".")[0]
        # Only the top-level package: finding a submodule would import the package.
        if PathFinder.find_spec(package, [str(directory), *sys.path]) is None:
            raise InvalidExperimentException(f"{command.argv[0]}: there is no such module")
    if isinstance(command, Program):
        _refuse_what_cannot_be_started(command.argv[0], directory)


def _refuse_what_cannot_be_started(name: str, directory: Path) -> None:
    """Raise InvalidExperimentException if a program is neither on PATH nor an executable file of the directory."""
    # As in the engine, programs beside the interpreter come first.
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    if shutil.which(str(directory / name) if os.sep in name else name, path=path) is not None:
        return
    file = directory / name
    if file.is_file() and file.suffix == ".py":
        raise InvalidExperimentException(f"{name} is not executable. Did you mean: det run python {name}")
    if os.sep in name and file.is_file():
        raise InvalidExperimentException(f"{name}: it may not be executed; change its mode")
    raise InvalidExperimentException(f"{name}: there is no such program")
