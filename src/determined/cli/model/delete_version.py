"""The command `det model delete-version`."""

from __future__ import annotations

import click

from determined.cli.command import Command, confirm, with_yes
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.model.rows import find_model, version_plain, versions_of
from determined.cli.selection.arguments import Count, complete_models
from determined.cli.store_access import opened_store
from determined.errors import NotFoundException


@click.command("delete-version", cls=Command, action="delete version {number} of {name!r:model}")
@click.argument("name", shell_complete=complete_models)
@click.argument("number", metavar="N", type=Count(min=1))
@with_yes
@with_json
def delete_version(name: str, number: int, yes: bool, form: Form) -> None:
    """Delete a version of a model.

    Its checkpoint is kept, and can be deleted afterwards.

    \b
    Example: det model delete-version digits 2
    """
    with opened_store() as store:
        model = find_model(store, name)
        found = [version for version in versions_of(store, model) if version.row.number == number]
        if not found:
            raise NotFoundException(f"Version {number} of model {model.name!r} not found.")
        confirm(f"Delete version {number} of the model {model.name} (checkpoint {found[0].row.checkpoint})?", yes=yes)
        store.registry.delete_version(model.id, number)
    if form == "json":
        print_json(version_plain(found[0]))
    else:
        click.echo(visible(f"Deleted version {number} of the model {model.name}"))
