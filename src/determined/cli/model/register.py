"""The command `det model register-version`."""

from __future__ import annotations

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, script_row, show, with_json
from determined.cli.model.rows import VERSION, Version, find_model, version_plain
from determined.cli.selection.arguments import complete_models
from determined.cli.store_access import opened_store


@click.command(
    "register-version", cls=Command, action="register {checkpoint_id:checkpoint} as a version of {name!r:model}"
)
@click.argument("name", shell_complete=complete_models)
@click.argument("checkpoint_id", metavar="UUID")
@with_json
def register_version(name: str, checkpoint_id: str, form: Form) -> None:
    """Register a checkpoint as a version of a model.

    A registered checkpoint cannot be deleted.

    \b
    Example: det model register-version digits 4cf2ea8e-43c2-4b43-b2fa-2c07d7ea4a4c
    """
    with opened_store() as store:
        row = store.registry.register(find_model(store, name).id, checkpoint_id)
        version = Version(row, store.upkeep.checkpoint(checkpoint_id))
    columns, cells = script_row(VERSION, version)
    show(form, columns, [cells], lambda: version_plain(version))
