"""Ask for confirmation before something is deleted or changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from determined.cli.display.safe_text import visible

F = TypeVar("F", bound=Callable[..., Any])


def with_yes(command: F) -> F:
    """Add the option `--yes` to a command, as the argument `yes`."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(command)


def confirm(question: str, *, yes: bool) -> None:
    """Ask the user to confirm, unless `yes`; without confirmation the command is aborted with exit code 1."""
    if not yes:
        click.confirm(visible(question), abort=True, err=True)
