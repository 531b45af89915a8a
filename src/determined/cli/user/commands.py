"""`det user login`, `logout` and `whoami`, and `det auth`: they print that there are no accounts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.store.process import this_user

# Other arguments of old scripts, such as a password, are accepted and ignored.
_ANYTHING: dict[str, Any] = {"ignore_unknown_options": True}


def _with_ignored_arguments(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command accept any further arguments."""
    return click.argument("ignored", metavar="[ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)(command)


@click.command(cls=Command, action="log in", context_settings=_ANYTHING)
@_with_ignored_arguments
@with_json
def login(ignored: tuple[str, ...], form: Form) -> None:
    """Accepted for old command lines: there are no accounts.

    \b
    Example: det user login ada
    """
    _print_user(form, "Nothing to log in to")


@click.command(cls=Command, action="log out", context_settings=_ANYTHING)
@_with_ignored_arguments
@with_json
def logout(ignored: tuple[str, ...], form: Form) -> None:
    """Accepted for old command lines: there are no accounts.

    \b
    Example: det user logout
    """
    _print_user(form, "Nothing to log out of")


@click.command(cls=Command, action="show the user")
@with_json
def whoami(form: Form) -> None:
    """Show the user of this machine.

    \b
    Example: det user whoami
    """
    _print_user(form, f"You are {this_user()!r}")


@click.command(cls=Command, action="log in", context_settings=_ANYTHING)
@_with_ignored_arguments
@with_json
def auth(ignored: tuple[str, ...], form: Form) -> None:
    """Accepted for old command lines: there are no accounts.

    \b
    Example: det auth login
    """
    _print_user(form, "Nothing to log in to")


def _print_user(form: Form, beginning: str) -> None:
    """Print that there are no accounts, or the user of this machine as JSON."""
    if form == "json":
        print_json({"user": this_user(), "accounts": False})
    else:
        click.echo(f"{beginning}: there are no accounts, experiments belong to the user of this machine")
