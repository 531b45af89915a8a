"""The command `det store vacuum`."""

from __future__ import annotations

import click

from determined.cli.groups import Command
from determined.cli.output import Form, print_json, with_json
from determined.cli.render import size
from determined.cli.text import visible


@click.command(cls=Command, action="vacuum the store")
@with_json
def vacuum(form: Form) -> None:
    """Reclaim disk space after deletions.

    \b
    Example: det store vacuum
    """
    from determined.store.care.sweeping import vacuum_store

    swept = vacuum_store()
    if form == "json":
        plain = {"place": swept.place, "bytes_before": swept.before, "bytes_after": swept.after}
        print_json({**plain, "gained": swept.before - swept.after})
        return
    gained = swept.before - swept.after
    result = f"{size(gained)} gained" if gained > 0 else "there was nothing to gain"
    click.echo(f"{visible(swept.place)}: {size(swept.before)} before, {size(swept.after)} now, {result}")
