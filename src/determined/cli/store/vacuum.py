"""The command `det store vacuum`."""

from __future__ import annotations

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.display.table import size


@click.command(cls=Command, action="vacuum the store")
@with_json
def vacuum(form: Form) -> None:
    """Reclaim disk space after deletions.

    \b
    Example: det store vacuum
    """
    from determined.store.maintenance.vacuum import vacuum_store

    done = vacuum_store()
    if form == "json":
        plain = {"place": done.place, "bytes_before": done.before, "bytes_after": done.after}
        print_json({**plain, "gained": done.before - done.after})
        return
    gained = done.before - done.after
    result = f"{size(gained)} reclaimed" if gained > 0 else "nothing to reclaim"
    click.echo(f"{visible(done.place)}: {size(done.before)} before, {size(done.after)} now, {result}")
