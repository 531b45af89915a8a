"""The command `det version`."""

from __future__ import annotations

import click

import determined
from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json


@click.command(cls=Command, action="show the version")
@with_json
def version(form: Form) -> None:
    """Show the version.

    \b
    Example: det version
    """
    if form == "json":
        print_json({"version": determined.__version__})
    else:
        click.echo(determined.__version__)
