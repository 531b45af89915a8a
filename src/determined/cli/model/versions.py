"""The command `det model list-versions`."""

from __future__ import annotations

import click

from determined.cli.command import Command
from determined.cli.display.output import ColumnChoice, Form, show_list, with_columns, with_csv
from determined.cli.display.times import with_utc
from determined.cli.model.rows import VERSION, find_model, version_plain, versions_of
from determined.cli.selection.arguments import complete_models
from determined.cli.store_access import opened_store


@click.command("list-versions", cls=Command, action="list the versions of {name!r:model}")
@click.argument("name", shell_complete=complete_models)
@with_utc
@with_csv
@with_columns
def list_versions(name: str, form: Form, columns: ColumnChoice) -> None:
    """List the versions of a model.

    Newest first.

    \b
    Example: det model list-versions digits
    """
    with opened_store() as store:
        found = versions_of(store, find_model(store, name))
    show_list(form, VERSION, found, lambda: [version_plain(version) for version in found], columns)
