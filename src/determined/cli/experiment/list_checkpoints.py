"""The command `det experiment list-checkpoints`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from determined.cli.command import Command
from determined.cli.display.json_rows import checkpoint_plain, checkpoint_type, output_plain
from determined.cli.display.output import ColumnChoice, Field, Form, show_list, with_columns, with_csv
from determined.cli.display.table import size
from determined.cli.display.times import ago, time_text, with_utc
from determined.cli.selection.arguments import ID, Count, complete_experiments
from determined.cli.store_access import opened_store
from determined.store.ranking import best_checkpoints

if TYPE_CHECKING:
    from determined.store.output_records import Output
    from determined.store.records import StoredCheckpoint


class _Saved(NamedTuple):
    """A row of the list: a checkpoint, or an output of batch inference."""

    trial_id: int
    batches: int
    state: str
    metric: Any
    uuid: str
    resources: dict[str, int]
    type: str
    reported: float | None
    storage: str


@click.command("list-checkpoints", cls=Command, action="list the checkpoints of {experiment_id:experiment}")
@click.argument("experiment_id", metavar="ID", type=ID, shell_complete=complete_experiments)
@click.option("--best", type=Count(min=1), metavar="N", help="Only the N best existing checkpoints, best first.")
@click.option("--include-resources", is_flag=True, help="Accepted for old command lines: resources are always shown.")
@with_utc
@with_csv
@with_columns
def list_checkpoints(
    experiment_id: int, best: int | None, include_resources: bool, form: Form, columns: ColumnChoice
) -> None:
    """List the checkpoints of an experiment.

    For batch inference, a column shows the type: progress checkpoints or outputs.

    \b
    Example: det experiment list-checkpoints 3 --best 1
    """
    with opened_store() as store:
        experiment = store.experiments.get(experiment_id)
        checkpoints = store.experiments.checkpoints(experiment_id)
        # An output has no metric, so it cannot be among the best.
        found = store.outputs.of_experiment(experiment_id) if best is None else []
        outputs = [output for output in found if output.uploads]
    if best is None:
        checkpoints = sorted(checkpoints, key=lambda row: (row.trial_id, row.steps_completed))
    else:
        checkpoints = best_checkpoints(checkpoints, experiment.metric, experiment.smaller_is_better)[:best]
    inference = bool(outputs) or any(checkpoint_type(row) != "training" for row in checkpoints)
    show_list(
        form,
        _fields(inference=inference),
        [*(_checkpoint(row, experiment.metric) for row in checkpoints), *map(_output, outputs)],
        lambda: [
            *(checkpoint_plain(row, experiment.metric) for row in checkpoints),
            *(output_plain(row) for row in outputs),
        ],
        columns,
    )


def _fields(*, inference: bool) -> list[Field[_Saved]]:
    """Return the columns; those shown in pipes are Determined's, plus the type for batch inference."""
    return [
        Field("Trial ID", lambda row: row.trial_id),
        Field("# of Batches", lambda row: row.batches, rank=2),
        Field("State", lambda row: row.state, rank=2),
        Field("Validation Metric", lambda row: row.metric),
        Field("UUID", lambda row: row.uuid, rank=0),
        Field("Resources", lambda row: ", ".join(sorted(row.resources)), long=True, rank=4),
        Field("Size", lambda row: size(sum(row.resources.values())), rank=3),
        Field("Type", lambda row: row.type, shown="everywhere" if inference else "wide"),
        Field(
            "Report Time", lambda row: time_text(row.reported), on_terminal=lambda row: ago(row.reported), shown="wide"
        ),
        Field("Storage", lambda row: row.storage, shown="wide", long=True),
    ]


def _checkpoint(row: StoredCheckpoint, metric: str | None) -> _Saved:
    """Return the row of a checkpoint; `metric` is the searcher metric."""
    return _Saved(
        row.trial_id,
        row.steps_completed,
        row.shown_state,
        row.validation_metric(metric),
        row.checkpoint_id,
        row.resources,
        checkpoint_type(row),
        row.reported,
        row.storage,
    )


def _output(row: Output) -> _Saved:
    """Return the row of an output of batch inference."""
    return _Saved(
        row.trial_id, row.batches, "COMPLETED", None, row.uuid, row.resources, "output", row.reported, row.storage
    )
