"""The command `det model create`."""

from __future__ import annotations

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, script_row, show, with_json
from determined.cli.display.times import with_utc
from determined.cli.model.rows import MODEL, model_plain
from determined.cli.store_access import opened_store
from determined.store.process import this_user


@click.command(cls=Command, action="create {name!r:model}")
@click.argument("name")
@click.option("--description", default="", help="Description of the model.")
@with_utc
@with_json
def create(name: str, description: str, form: Form) -> None:
    """Create a model.

    \b
    Example: det model create digits --description "reads house numbers"
    """
    with opened_store() as store:
        model = store.registry.create_model(name, description=description, owner=this_user())
    columns, row = script_row(MODEL, model)
    show(form, columns, [row], lambda: model_plain(model))
