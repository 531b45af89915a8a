"""The command `det store vacuum`."""

from __future__ import annotations

import click

from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.display.table import size
from determined.cli.groups import Command


@click.command(cls=Command, action="vacuum the store")
@with_json
def vacuum(form: Form) -> None:
    """Reclaim disk space after deletions.

    \b
    Example: det store vacuum
    """
    from determined.store.maintenance.vacuum import vacuum_store

    swept = vacuum_store()
    if form == "json":
        plain = {"place": swept.place, "bytes_before": swept.before, "bytes_after": swept.after}
        print_json({**plain, "gained": swept.before - swept.after})
        return
    gained = swept.before - swept.after
    result = f"{size(gained)} gained" if gained > 0 else "there was nothing to gain"
    click.echo(f"{visible(swept.place)}: {size(swept.before)} before, {size(swept.after)} now, {result}")
