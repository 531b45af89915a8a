"""`det model list-versions`."""

from __future__ import annotations

import click

from determined.cli.groups import Command
from determined.cli.id_lists import complete_models
from determined.cli.model.rows import VERSION, find_model, version_plain, version_row, versions_of
from determined.cli.opened import opened_store
from determined.cli.output import Form, show, with_csv


@click.command("list-versions", cls=Command, action="list the versions of {name!r:model}")
@click.argument("name", shell_complete=complete_models)
@with_csv
def list_versions(name: str, form: Form) -> None:
    """List the versions of a model.

    Newest first.

    \b
    Example: det model list-versions digits
    """
    with opened_store() as store:
        found = versions_of(store, find_model(store, name))
    rows = [version_row(version) for version in found]
    show(form, VERSION, rows, lambda: [version_plain(version) for version in found])
