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
from determined.errors import CheckpointInUse
from determined.sentences import counted
from determined.store.states import TRIAL_ENDED

if TYPE_CHECKING:
    from determined.checkpoint_storage.retention import Policy
    from determined.store.experiment_records import Experiment
    from determined.store.records import StoredCheckpoint
    from determined.store.store import Store

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

    numbers = dict(zip(RETENTION, (save_experiment_best, save_trial_best, save_trial_latest), strict=True))
    with opened_store() as store:
        experiment = store.experiments.get(experiment_id)
        policy = Policy(**numbers, smaller_is_better=experiment.smaller_is_better)
        surplus = _surplus(store, experiment, policy)
        # On standard error, so that `--json` prints JSON only.
        click.echo(_preview(experiment, surplus), err=True)
        confirm(f"Set this policy{' and remove these checkpoints' if surplus else ''}?", yes=yes)
        # A standalone run has no runner that could apply the policy later.
        if not experiment.is_standalone:
            store.upkeep.change_config(experiment_id, "checkpoint_storage", numbers)
        shown = [row.checkpoint_id for row in surplus]
        # Computed again: the question may have been open for long, and checkpoints may have changed meanwhile.
        removed, kept = _remove(
            store, [row for row in _surplus(store, experiment, policy) if row.checkpoint_id in shown]
        )
    if form == "json":
        print_json({"id": experiment_id, **numbers, "removed": removed, "in_use": kept})
        return
    for reason in kept.values():
        click.echo(visible(f"Not removed: {reason}"))
    click.echo(f"Experiment {experiment_id}: {counted(len(removed), 'checkpoint')} removed")


def _surplus(store: Store, experiment: Experiment, policy: Policy) -> list[StoredCheckpoint]:
    """Return the checkpoints that the policy would delete; those to keep are read and verified first."""
    from determined.checkpoint_storage import retention
    from determined.config.metric_values import finite_number
    from determined.experiment.checkpoints.storage_lookup import storage_of

    trials = store.experiments.trials(experiment.id)
    registered = store.registry.registered(experiment.id)
    sources = {trial.source_checkpoint_id for trial in trials}
    rows = {
        row.checkpoint_id: row
        for row in reversed(store.experiments.checkpoints(experiment.id))
        if row.state == "ACTIVE"
    }
    stored = [
        retention.Candidate(
            checkpoint_id=row.checkpoint_id,
            trial=row.trial_id,
            steps=row.steps_completed,
            metric=finite_number(row.validation_metric(experiment.metric)),
            validated=row.steps_completed,
            registered=row.checkpoint_id in registered or row.borrowed,
            in_use=row.checkpoint_id in sources,
            resources=row.resources,
        )
        for row in rows.values()
    ]
    places = {row.storage: storage_of(experiment, row.storage) for row in rows.values()}
    inspection = retention.Inspection(lambda checkpoint: places[rows[checkpoint.checkpoint_id].storage])
    ended = {trial.id for trial in trials if trial.state in TRIAL_ENDED}
    return [rows[found.checkpoint_id] for found in retention.surplus(stored, policy, inspection.is_good, ended=ended)]


def _remove(store: Store, rows: list[StoredCheckpoint]) -> tuple[list[str], dict[str, str]]:
    """Delete checkpoints; return the deleted ones, and for the others the reason why they are in use."""
    from determined.experiment.deletion import delete_checkpoints

    removed: list[str] = []
    kept: dict[str, str] = {}
    for row in rows:
        # One by one: a checkpoint that came into use meanwhile must not prevent the others.
        try:
            delete_checkpoints(store, [row.checkpoint_id])
            removed.append(row.checkpoint_id)
        except CheckpointInUse as error:
            kept[row.checkpoint_id] = str(error)
    return removed, kept


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
