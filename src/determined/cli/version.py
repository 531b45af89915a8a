"""`det version`."""

from __future__ import annotations

import click

import determined


@click.command()
def version() -> None:
    """Show the version."""
    click.echo(determined.__version__)
