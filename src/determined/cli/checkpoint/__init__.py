"""The command `det checkpoint`."""

from __future__ import annotations

import click

from determined.cli.groups import LazyGroup

_HERE = "determined.cli.checkpoint"
_COMMANDS = {
    "describe": (f"{_HERE}.describe", "Describe a checkpoint."),
    "download": (f"{_HERE}.download", "Download a checkpoint."),
    "export": (f"{_HERE}.exporting", "Export the weights of a checkpoint."),
    "delete": (f"{_HERE}.delete", "Delete checkpoints."),
    "rm": (f"{_HERE}.rm", "Remove files of checkpoints."),
}


@click.group(cls=LazyGroup, commands_in=_COMMANDS, aliases={})
def checkpoint() -> None:
    """Describe, download and delete checkpoints.

    \b
    Example: det checkpoint describe 4cf2ea8e-43c2-4b43-b2fa-2c07d7ea4a4c
    """
