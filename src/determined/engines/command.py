"""Parse an entrypoint into a command, and translate it into what is started. Pure: nothing is read or started here."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from determined.errors import InvalidConfigurationException


@dataclass(frozen=True)
class Harness:
    """A command that trains a trial class with `determined.exec.harness`; `trial` is `module:Class`."""

    trial: str


@dataclass(frozen=True)
class Script:
    """A Python file and its arguments, run by the current interpreter."""

    argv: tuple[str, ...]


@dataclass(frozen=True)
class Module:
    """A Python module and its arguments, run as by `python -m`."""

    argv: tuple[str, ...]


@dataclass(frozen=True)
class Shell:
    """A command line that is passed to `sh -c`."""

    text: str


@dataclass(frozen=True)
class Program:
    """A program and its arguments, started without a shell."""

    argv: tuple[str, ...]


Command = Harness | Script | Module | Shell | Program

_TRIAL_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_BARE_CLASS = re.compile(r"[A-Z]\w*")
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
# Characters that a shell interprets: a text without any of them is split here, and can run in the warm process.
_FOR_A_SHELL = set("|&;<>()$`\\*?[]{}#~!\n")


def parse_entrypoint(entrypoint: str | Sequence[str]) -> Command:
    """Return the command that the entrypoint of a configuration describes."""
    if not isinstance(entrypoint, str):
        return _parse_list(list(entrypoint))
    text = entrypoint.strip()
    if not text:
        raise InvalidConfigurationException(
            message="entrypoint: the value is empty; write module:Class, for example model_def:MyTrial, or a command"
        )
    if _TRIAL_CLASS.fullmatch(text):
        return Harness(text)
    # A class without a module is a common mistake; as a command it would only fail when the first trial starts.
    if _BARE_CLASS.fullmatch(text):
        raise InvalidConfigurationException(
            message=f"entrypoint: {text!r} names a class without its module; write module:{text}, "
            f"for example model_def:{text}"
        )
    if not _FOR_A_SHELL & set(text):
        try:
            words = shlex.split(text)
        except ValueError:  # an unclosed quote: leave the error message to the shell
            return Shell(text)
        # Only Python programs can run in the warm process; every other command starts a shell, as it would be typed.
        return _parse_python(words) or Shell(text)
    return Shell(text)


def as_argv(command: Command) -> list[str]:
    """Return the command as the argument list of a new process."""
    if isinstance(command, Harness):
        # The interpreter of this process; `job_environment` puts its directory first on PATH for shells as well.
        return [sys.executable, "-m", "determined.exec.harness", command.trial]
    if isinstance(command, Script):
        return [sys.executable, *command.argv]
    if isinstance(command, Module):
        return [sys.executable, "-m", *command.argv]
    if isinstance(command, Shell):
        return ["sh", "-c", command.text]
    return list(command.argv)


def _parse_list(words: list[str]) -> Command:
    """Return the command of an entrypoint that is a list; it is started without a shell."""
    if not words or not all(isinstance(word, str) for word in words) or not words[0]:
        raise InvalidConfigurationException(
            message=f"entrypoint: expected a program and its arguments as a list of strings, got {words!r}"
        )
    return _parse_python(words) or Program(tuple(words))


def _parse_python(words: list[str]) -> Script | Module | None:
    """Return the script or module of a `python ...` command, or None for any other command."""
    # `python` alone stands for the interpreter of the job. A path
    # to another interpreter is kept and started as a program.
    if not words or not (_PYTHON.fullmatch(words[0]) or words[0] == sys.executable):
        return None
    rest = words[1:]
    while rest[:1] == ["-u"]:  # the output of jobs is always unbuffered, so -u changes nothing
        rest = rest[1:]
    if rest[:1] == ["-m"] and len(rest) > 1 and not rest[1].startswith("-"):
        return Module(tuple(rest[1:]))
    # Other options of Python change the interpreter itself, so these commands are started as programs.
    if rest and rest[0].endswith(".py") and not rest[0].startswith("-"):
        return Script(tuple(rest))
    return None


def runnable(command: Command, slots: int) -> Script | Module | Program:
    """Return what to start for a command. A trial class becomes the module that trains it on all of its slots."""
    if isinstance(command, Harness):
        # One process per slot: the launcher starts the ranks.
        if slots > 1:
            return Module(("determined.launch.torch_distributed", "--trial", command.trial))
        return Module(("determined.exec.harness", command.trial))
    if isinstance(command, Shell):
        return Program(tuple(as_argv(command)))
    return command
