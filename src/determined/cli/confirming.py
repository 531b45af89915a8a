"""Ask before something is removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from determined.cli.text import visible

F = TypeVar("F", bound=Callable[..., Any])


def with_yes(command: F) -> F:
    """Give a command the option `--yes`, as the argument `yes`."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(command)


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if somebody says so; without an answer nothing is done, and the exit code is 1."""
    if not yes:
        click.confirm(visible(question), abort=True, err=True)
