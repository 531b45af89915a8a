"""The command `det model describe`."""

from __future__ import annotations

import sys

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, script_columns, script_row, with_csv, write_csv
from determined.cli.display.table import one_row, table
from determined.cli.display.times import with_utc
from determined.cli.model.rows import (
    MODEL,
    VERSION,
    find_model,
    model_plain,
    version_plain,
    versions_of,
)
from determined.cli.selection.arguments import Count, complete_models
from determined.cli.store_access import opened_store
from determined.errors import NotFoundException


@click.command(cls=Command, action="describe {name!r:model}")
@click.argument("name", shell_complete=complete_models)
@click.option("--version", "number", type=Count(min=1), metavar="N", help="Version to describe (default: the newest).")
@with_utc
@with_csv
def describe(name: str, number: int | None, form: Form) -> None:
    """Describe a model and one of its versions.

    \b
    Example: det model describe digits --version 2
    """
    with opened_store() as store:
        model = find_model(store, name)
        found = [version for version in versions_of(store, model) if number in (None, version.row.number)][:1]
    if number is not None and not found:
        raise NotFoundException(f"Version {number} of model {model.name!r} not found.")
    if form == "json":
        print_json({**model_plain(model), "version": version_plain(found[0]) if found else None})
    elif form == "csv":
        columns, row = script_row(MODEL, model)
        write_csv(sys.stdout, columns, [row])
        click.echo()
        write_csv(sys.stdout, script_columns(VERSION), [script_row(VERSION, version)[1] for version in found])
    else:
        versions = one_row(*script_row(VERSION, found[0])) if found else table(script_columns(VERSION), [])
        click.echo(f"{one_row(*script_row(MODEL, model))}\n\n{versions}")
