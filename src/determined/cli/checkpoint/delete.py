"""The command `det checkpoint delete`."""

from __future__ import annotations

import click

from determined.cli.command import Command, confirm, with_yes
from determined.cli.display.json_rows import checkpoint_plain
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.display.table import size
from determined.cli.selection.arguments import with_checkpoints
from determined.cli.store_access import opened_store
from determined.sentences import counted


@click.command(cls=Command, action="delete {checkpoints:checkpoint}")
@with_checkpoints
@with_yes
@with_json
def delete(checkpoints: list[str], yes: bool, form: Form) -> None:
    """Delete checkpoints.

    The files are deleted, the records are kept. If one is registered as a version of a model, or needed by a trial,
    none is deleted.

    \b
    Example: det checkpoint delete 4cf2ea8e-43c2-4b43-b2fa-2c07d7ea4a4c --yes
    """
    from determined.experiment.deletion import delete_checkpoints

    with opened_store() as store:
        # All are looked up before the question, so that a wrong id is reported before anything is deleted.
        rows = [store.upkeep.checkpoint(checkpoint_id) for checkpoint_id in checkpoints]
        to_delete = [row for row in rows if row.state != "DELETED"]
        for row in to_delete:
            batches = counted(row.steps_completed, "batch", "batches")
            where = f"trial {row.trial_id}, after {batches}, {size(sum(row.resources.values()))}"
            # On standard error, so that `--json` prints JSON only.
            click.echo(visible(f"{row.checkpoint_id}: {where}"), err=True)
        if to_delete:
            confirm(f"Delete {counted(len(to_delete), 'checkpoint')}?", yes=yes)
        delete_checkpoints(store, checkpoints)
        already_deleted = [row.checkpoint_id for row in rows if row not in to_delete]
        # Read again, since their state has changed.
        rows = [store.upkeep.checkpoint(checkpoint_id) for checkpoint_id in checkpoints]
    if form == "json":
        print_json([checkpoint_plain(row, None) for row in rows])
        return
    for checkpoint_id in already_deleted:
        click.echo(visible(f"Checkpoint {checkpoint_id} is DELETED already"))
    if to_delete:
        click.echo(f"Deleted {counted(len(to_delete), 'checkpoint')}")
