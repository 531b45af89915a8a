"""`det experiment set gc-policy`: change which checkpoints are kept, and delete the others after a confirmation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from determined.cli.command import confirm, with_yes
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.display.table import Column, size, table
from determined.cli.selection.arguments import Count
from determined.cli.selection.bulk import BulkCommand
from determined.cli.store_access import opened_store
from determined.sentences import counted

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment
    from determined.store.records import StoredCheckpoint

_COLUMNS = [
    Column("Trial ID"),
    Column("# of Batches"),
    Column("Validation Metric"),
    Column("UUID", rank=0),
    Column("Size"),
]


@click.command(
    "gc-policy", cls=BulkCommand, kind="experiment", action="set the retention policy of {experiment_id:experiment}"
)
@click.option(
    "--save-experiment-best",
    type=Count(min=0),
    required=True,
    metavar="N",
    help="Best checkpoints to keep over all trials.",
)
@click.option(
    "--save-trial-best", type=Count(min=0), required=True, metavar="N", help="Best checkpoints to keep of each trial."
)
@click.option(
    "--save-trial-latest",
    type=Count(min=0),
    required=True,
    metavar="N",
    help="Newest checkpoints to keep of each trial.",
)
@with_yes
@with_json
def gc_policy(
    experiment_id: int,
    save_experiment_best: int,
    save_trial_best: int,
    save_trial_latest: int,
    yes: bool,
    form: Form,
) -> None:
    """Change which checkpoints are kept, and delete the others.

    The checkpoints to delete are shown first. Every trial keeps at least one good checkpoint; registered and imported
    checkpoints, and those in use, are never deleted.

    \b
    Example: det experiment set gc-policy 3 --save-experiment-best 1 --save-trial-best 1 --save-trial-latest 0
    """
    from determined.checkpoint_storage.retention import Policy
    from determined.config.storage_directory import RETENTION
    from determined.experiment.checkpoints.surplus import remove, surplus_of

    numbers = dict(zip(RETENTION, (save_experiment_best, save_trial_best, save_trial_latest), strict=True))
    with opened_store() as store:
        experiment = store.experiments.get(experiment_id)
        policy = Policy(**numbers, smaller_is_better=experiment.smaller_is_better)
        surplus = surplus_of(store, experiment, policy)
        # On standard error, so that `--json` prints JSON only.
        click.echo(_preview(experiment, surplus), err=True)
        confirm(f"Set this policy{' and remove these checkpoints' if surplus else ''}?", yes=yes)
        # A standalone run has no runner that could apply the policy later.
        if not experiment.is_standalone:
            store.upkeep.change_config(experiment_id, "checkpoint_storage", numbers)
        shown = [row.checkpoint_id for row in surplus]
        # Computed again: the question may have been open for long, and checkpoints may have changed meanwhile.
        again = [row for row in surplus_of(store, experiment, policy) if row.checkpoint_id in shown]
        removed, kept = remove(store, again)
    if form == "json":
        print_json({"id": experiment_id, **numbers, "removed": removed, "in_use": kept})
        return
    for reason in kept.values():
        click.echo(visible(f"Not removed: {reason}"))
    click.echo(f"Experiment {experiment_id}: {counted(len(removed), 'checkpoint')} removed")


def _preview(experiment: Experiment, rows: list[StoredCheckpoint]) -> str:
    """Return a table of the checkpoints to delete."""
    if not rows:
        return "No checkpoint would be removed."
    cells = [
        [
            row.trial_id,
            row.steps_completed,
            row.validation_metric(experiment.metric),
            row.checkpoint_id,
            size(sum(row.resources.values())),
        ]
        for row in rows
    ]
    return f"These checkpoints would be removed:\n{table(_COLUMNS, cells)}"
