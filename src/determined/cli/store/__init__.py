"""`det store`."""

from __future__ import annotations

import click

from determined.cli.groups import LazyGroup

_HERE = "determined.cli.store"
_COMMANDS = {
    "info": (f"{_HERE}.info", "Show where the store is and what it holds."),
    "check": (f"{_HERE}.check", "Check that the store is whole."),
    "backup": (f"{_HERE}.backup", "Back up the store into a file."),
    "vacuum": (f"{_HERE}.vacuum", "Give back the room of what was deleted."),
    "export": (f"{_HERE}.exporting", "Export experiments into files."),
    "import": (f"{_HERE}.importing", "Import experiments from files."),
}


@click.group(cls=LazyGroup, commands_in=_COMMANDS, aliases={}, default="info")
def store() -> None:
    """Look after the store, and move experiments between stores.

    \b
    Example: det store backup monday.sqlite
    """
