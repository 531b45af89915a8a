"""`det store import`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from determined.cli.groups import Command
from determined.cli.output import Form, print_json, with_json
from determined.cli.render import Column, table
from determined.cli.store.progress import progress
from determined.cli.text import visible

_COLUMNS = [Column("Source ID"), Column("New ID"), Column("Name", long=True), Column("New")]


@click.command("import", cls=Command, action="import from {source}")
@click.argument("source", metavar="PATH", type=click.Path(path_type=Path))
@click.option(
    "--take-over",
    is_flag=True,
    help="Let this store manage the files of checkpoints and code, after a move. Only for exports you trust.",
)
@with_json
def import_(source: Path, take_over: bool, form: Form) -> None:
    """Import experiments from files.

    Imports all experiments or none. Experiments that this store already has are not changed. In an empty store they
    keep their ids; in others they get new ones. Files of checkpoints and code are not copied; without --take-over
    this store never deletes them.

    \b
    Example: DET_STORE=postgresql://me@server/team det store import all.jsonl --take-over
    """
    from determined.store.moving.importing import import_store

    with progress("rows") as tell:
        done = import_store(source, tell, take_over=take_over)
    if form == "json":
        print_json(
            {
                "place": done.place,
                "experiments": [asdict(experiment) for experiment in done.experiments],
                "rows": done.rows,
            }
        )
        return
    rows = [(each.there, each.here, each.name, "yes" if each.new else "no") for each in done.experiments]
    click.echo(table(_COLUMNS, rows))
    new = sum(each.new for each in done.experiments)
    click.echo()
    click.echo(
        visible(f"Imported {new:,} of {len(rows):,} experiments ({sum(done.rows.values()):,} rows) into {done.place}")
    )
    if new and not take_over:
        click.echo("Checkpoints and code were not copied. Use --take-over to let this store manage them.")
