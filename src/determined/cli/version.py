"""`det version`."""

from __future__ import annotations

import click

import determined
from determined.cli.groups import Command


@click.command(cls=Command)
def version() -> None:
    """Show the version.

    \b
    Example: det version
    """
    click.echo(determined.__version__)
