"""The command `det checkpoint describe`."""

from __future__ import annotations

import click

from determined.cli.checkpoint.rows import COLUMNS, checkpoint_row, described_plain, state_parts
from determined.cli.command import Command
from determined.cli.display.output import Form, show, with_csv
from determined.cli.display.safe_text import visible
from determined.cli.display.table import one_row
from determined.cli.display.times import with_utc
from determined.cli.selection.arguments import complete_checkpoints
from determined.cli.store_access import opened_store

_NOTES = {
    "incomplete": "INCOMPLETE: training cannot be resumed from it, its weights can be loaded. Missing",
    "pickled_state": "PICKLED STATE: read only when a trial that calls allow_pickled_state() resumes. Pickled",
}


@click.command(cls=Command, action="describe {checkpoint_id:checkpoint}")
@click.argument("checkpoint_id", metavar="UUID", shell_complete=complete_checkpoints)
@with_utc
@with_csv
def describe(checkpoint_id: str, form: Form) -> None:
    """Describe a checkpoint.

    \b
    Example: det checkpoint describe 4cf2ea8e-43c2-4b43-b2fa-2c07d7ea4a4c
    """
    with opened_store() as store:
        row = store.upkeep.checkpoint(checkpoint_id)
        experiment = store.experiments.get(store.experiments.trial(row.trial_id).experiment_id)
    if form == "table":
        click.echo(one_row(COLUMNS, checkpoint_row(experiment, row)))
    else:
        show(form, COLUMNS, [checkpoint_row(experiment, row)], lambda: described_plain(experiment, row))
    if form == "table":
        for key, note in _NOTES.items():
            parts = state_parts(row, key)
            if parts:
                click.echo(f"\n{note}:\n  " + "\n  ".join(map(visible, parts)))
