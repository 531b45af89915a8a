"""`det experiment list-checkpoints`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from determined.cli.groups import Command
from determined.cli.id_lists import complete_experiments
from determined.cli.opened import opened_store
from determined.cli.output import Form, show, with_csv
from determined.cli.plain import checkpoint_plain, checkpoint_state, checkpoint_type, output_plain, validation_metric
from determined.cli.ranking import best_checkpoints
from determined.cli.render import Column, Row, size
from determined.cli.whole_numbers import ID, Count

if TYPE_CHECKING:
    from determined.store.outputs import Output

_COLUMNS = [
    Column("Trial ID"),
    Column("# of Batches", rank=2),
    Column("State", rank=2),
    Column("Validation Metric"),
    Column("UUID", rank=0),
    Column("Resources", long=True, rank=4),
    Column("Size", rank=3),
]
_COLUMNS_OF_INFERENCE = [*_COLUMNS, Column("Type")]


@click.command("list-checkpoints", cls=Command, action="list the checkpoints of {experiment_id:experiment}")
@click.argument("experiment_id", metavar="ID", type=ID, shell_complete=complete_experiments)
@click.option("--best", type=Count(min=1), metavar="N", help="Only the N best existing checkpoints, best first.")
@click.option("--include-resources", is_flag=True, help="Accepted for old command lines: resources are always shown.")
@with_csv
def list_checkpoints(experiment_id: int, best: int | None, include_resources: bool, form: Form) -> None:
    """List the checkpoints of an experiment.

    For batch inference, a column shows the type: progress checkpoints or outputs.

    \b
    Example: det experiment list-checkpoints 3 --best 1
    """
    with opened_store() as store:
        experiment = store.experiments.get(experiment_id)
        checkpoints = store.experiments.checkpoints(experiment_id)
        # An output has no metric by which it could be among the best.
        found = store.outputs.of_experiment(experiment_id) if best is None else []
        outputs = [output for output in found if output.uploads]
    if best is None:
        checkpoints = sorted(checkpoints, key=lambda row: (row.trial_id, row.steps_completed))
    else:
        checkpoints = best_checkpoints(checkpoints, experiment.metric, experiment.smaller_is_better)[:best]
    inference = bool(outputs) or any(checkpoint_type(row) != "training" for row in checkpoints)
    cells: list[Row] = [
        [
            row.trial_id,
            row.steps_completed,
            checkpoint_state(row),
            validation_metric(row, experiment.metric),
            row.uuid,
            ", ".join(sorted(row.resources)),
            size(sum(row.resources.values())),
            *([checkpoint_type(row)] if inference else []),
        ]
        for row in checkpoints
    ]
    cells += [_output_cells(row) for row in outputs]
    show(
        form,
        # Scripts know the columns of a training.
        _COLUMNS_OF_INFERENCE if inference else _COLUMNS,
        cells,
        lambda: [
            *(checkpoint_plain(row, experiment.metric) for row in checkpoints),
            *(output_plain(row) for row in outputs),
        ],
    )


def _output_cells(row: Output) -> Row:
    files = row.resources
    total = size(sum(files.values()))
    return [row.trial_id, row.batches, "COMPLETED", None, row.uuid, ", ".join(files), total, "output"]
