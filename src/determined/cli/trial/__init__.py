"""`det trial`."""

from __future__ import annotations

import click

from determined.cli.groups import LazyGroup

_HERE = "determined.cli.trial"
_COMMANDS = {
    "describe": (f"{_HERE}.describe", "Describe a trial with its workloads."),
    "logs": (f"{_HERE}.logs", "Show what a trial wrote."),
    "download": (f"{_HERE}.download", "Download a checkpoint of a trial."),
    "kill": (f"{_HERE}.kill", "Kill a trial."),
    "support-bundle": (f"{_HERE}.support_bundle", "Gather all about a trial that helps others to help you."),
}


@click.group(cls=LazyGroup, commands_in=_COMMANDS, aliases={})
def trial() -> None:
    """Look at trials, fetch their checkpoints, end them.

    \b
    Example: det trial describe 7
    """
