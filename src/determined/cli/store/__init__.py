"""The command `det store`."""

from __future__ import annotations

import click

from determined.cli.groups import LazyGroup

_HERE = "determined.cli.store"
_COMMANDS = {
    "info": (f"{_HERE}.info", "Show location and contents of the store."),
    "check": (f"{_HERE}.check", "Check the store for damage."),
    "backup": (f"{_HERE}.backup", "Back up the store into a file."),
    "vacuum": (f"{_HERE}.vacuum", "Reclaim disk space after deletions."),
    "export": (f"{_HERE}.exporting", "Export experiments to files."),
    "import": (f"{_HERE}.importing", "Import experiments from files."),
}


@click.group(cls=LazyGroup, commands_in=_COMMANDS, aliases={}, default="info")
def store() -> None:
    """Maintain the store, and move experiments between stores.

    \b
    Example: det store backup monday.sqlite
    """
