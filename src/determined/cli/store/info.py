"""The command `det store info`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.table import Column, size, table

if TYPE_CHECKING:
    from determined.store.maintenance.info import Info

_TABLES = [Column("Table"), Column("Rows")]
_CONTENTS = [Column("In the data directory", long=True), Column("Files"), Column("Size")]


@click.command(cls=Command, action="describe the store")
@with_json
def info(form: Form) -> None:
    """Show location and contents of the store.

    \b
    Example: det store info
    """
    from determined.store.maintenance.info import read_info

    found = read_info()
    if form == "json":
        print_json(_plain(found))
        return
    in_log = f", {size(found.log_bytes)} of it in the write-ahead log" if found.log_bytes else ""
    facts = [
        ("Store", found.place),
        ("Kind", f"{_KINDS[found.kind]} {found.database_version}, schema {found.schema_version}"),
        ("Size", size(found.bytes) + in_log),
        ("Experiments", _counted(found.experiments)),
        ("Trials", f"{found.rows['trials']:,}"),
        ("Checkpoints", _counted(found.checkpoints)),
        ("Data directory", found.data_dir),
    ]
    from determined.cli.display.safe_text import visible

    for name, value in facts:
        click.echo(f"{name + ':':<16}{visible(value)}")
    click.echo()
    click.echo(table(_TABLES, list(found.rows.items())))
    click.echo()
    click.echo(table(_CONTENTS, [(entry.name, entry.files, size(entry.bytes)) for entry in found.contents]))


_KINDS = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def _counted(by_state: dict[str, int]) -> str:
    states = ", ".join(f"{count:,} {_shown_state(state)}" for state, count in by_state.items())
    return f"{sum(by_state.values()):,}" + (f" ({states})" if states else "")


def _shown_state(state: str) -> str:
    """Return a state as shown to users: standalone runs are stored as BY_HAND."""
    return "standalone" if state == "BY_HAND" else state


def _plain(found: Info) -> dict[str, object]:
    plain = asdict(found)
    return {**plain, "contents": list(plain["contents"])}
