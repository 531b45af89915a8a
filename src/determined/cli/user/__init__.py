"""`det user`: there are no accounts; scripts that log in first still work."""

from __future__ import annotations

import click

from determined.cli.groups import LazyGroup

_HERE = "determined.cli.user"
_COMMANDS = {
    "login": (f"{_HERE}.commands", "Accepted for old command lines: there are no accounts."),
    "logout": (f"{_HERE}.commands", "Accepted for old command lines: there are no accounts."),
    "whoami": (f"{_HERE}.commands", "Show the user of this machine."),
}


@click.group(cls=LazyGroup, commands_in=_COMMANDS, aliases={}, default="whoami")
def user() -> None:
    """Show the user (there are no accounts).

    \b
    Example: det user whoami
    """
