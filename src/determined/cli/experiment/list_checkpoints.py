"""`det experiment list-checkpoints`."""

from __future__ import annotations

import click

from determined.cli.groups import Command
from determined.cli.opened import opened_store
from determined.cli.output import Form, show, with_csv
from determined.cli.plain import checkpoint_plain, checkpoint_state, validation_metric
from determined.cli.ranking import best_checkpoints
from determined.cli.render import Column, size
from determined.cli.whole_numbers import ID, Count

_COLUMNS = [
    Column("Trial ID"),
    Column("# of Batches"),
    Column("State"),
    Column("Validation Metric"),
    Column("UUID"),
    Column("Resources", long=True),
    Column("Size"),
]


@click.command("list-checkpoints", cls=Command)
@click.argument("experiment_id", metavar="ID", type=ID)
@click.option("--best", type=Count(min=1), metavar="N", help="Only the N best ones that exist, best first.")
@click.option("--include-resources", is_flag=True, help="Accepted for old command lines: they are always shown.")
@with_csv
def list_checkpoints(experiment_id: int, best: int | None, include_resources: bool, form: Form) -> None:
    """List the checkpoints of an experiment.

    \b
    Example: det experiment list-checkpoints 3 --best 1
    """
    with opened_store() as store:
        experiment = store.experiments.get(experiment_id)
        checkpoints = store.experiments.checkpoints(experiment_id)
    if best is None:
        checkpoints = sorted(checkpoints, key=lambda row: (row.trial_id, row.steps_completed))
    else:
        checkpoints = best_checkpoints(checkpoints, experiment.metric, experiment.smaller_is_better)[:best]
    cells = [
        [
            row.trial_id,
            row.steps_completed,
            checkpoint_state(row),
            validation_metric(row, experiment.metric),
            row.uuid,
            ", ".join(sorted(row.resources)),
            size(sum(row.resources.values())),
        ]
        for row in checkpoints
    ]
    show(form, _COLUMNS, cells, lambda: [checkpoint_plain(row, experiment.metric) for row in checkpoints])
