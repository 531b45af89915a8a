"""The command `det trial`."""

from __future__ import annotations

import click

from determined.cli.groups import LazyGroup

_HERE = "determined.cli.trial"
_COMMANDS = {
    "describe": (f"{_HERE}.describe", "Describe a trial and its metrics."),
    "logs": (f"{_HERE}.logs", "Show the log of a trial."),
    "download": (f"{_HERE}.download", "Download a checkpoint of a trial."),
    "kill": (f"{_HERE}.kill", "Kill a trial."),
    "support-bundle": (f"{_HERE}.support_bundle", "Create a support bundle."),
}


@click.group(cls=LazyGroup, commands_in=_COMMANDS, aliases={})
def trial() -> None:
    """Describe and kill trials, and download their checkpoints.

    \b
    Example: det trial describe 7
    """
