"""`det preview-search`."""

from __future__ import annotations

from pathlib import Path

import click

from determined.cli.groups import Command
from determined.cli.output import Form, with_json


@click.command("preview-search", cls=Command)
@click.argument("config_file", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option("--config", "overrides", metavar="KEY=VALUE", multiple=True, help="Change the configuration; repeatable.")
@with_json
def preview_search(config_file: Path, overrides: tuple[str, ...], form: Form) -> None:
    """Preview a search without starting it.

    \b
    Example: det preview-search adaptive.yaml
    """
