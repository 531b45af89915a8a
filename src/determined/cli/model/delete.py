"""The command `det model delete`."""

from __future__ import annotations

import click

from determined.cli.command import Command, confirm, with_yes
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.model.rows import find_model, model_plain
from determined.cli.selection.arguments import complete_models
from determined.cli.store_access import opened_store
from determined.sentences import counted


@click.command(cls=Command, action="delete {name!r:model}")
@click.argument("name", shell_complete=complete_models)
@with_yes
@with_json
def delete(name: str, yes: bool, form: Form) -> None:
    """Delete a model.

    Its versions are deleted, too. Their checkpoints are kept, and can be deleted afterwards.

    \b
    Example: det model delete digits
    """
    with opened_store() as store:
        model = find_model(store, name)
        confirm(f"Delete the model {model.name} with {counted(model.versions, 'version')}?", yes=yes)
        store.registry.delete_model(model.id)
    if form == "json":
        print_json(model_plain(model))
    else:
        click.echo(visible(f"Deleted the model {model.name}"))
