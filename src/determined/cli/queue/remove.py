"""The command `det queue remove`."""

from __future__ import annotations

import click

from determined.cli.display.json_rows import experiment_plain
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.selection.arguments import complete_experiments_that
from determined.cli.selection.bulk import BulkCommand
from determined.cli.store_access import opened_store
from determined.errors import InvalidExperimentException


@click.command(
    cls=BulkCommand,
    kind="experiment",
    complete=complete_experiments_that("are in the queue"),
    action="remove {experiment_id:experiment} from the queue",
)
@with_json
def remove(experiment_id: int, form: Form) -> None:
    """Remove an experiment from the queue.

    The experiment is paused; running trials are saved first. `activate --detach` appends it to the queue again.

    \b
    Example: det queue remove 3
    """
    from determined.experiment.control import request

    with opened_store() as store:
        row = store.experiments.get(experiment_id)
        if store.queue.find(experiment_id) is None:
            raise InvalidExperimentException(f"experiment {experiment_id} is not in the queue: it is {row.state}")
        done = request(store, experiment_id, "pause")
        row = store.experiments.get(experiment_id)
    if form == "json":
        print_json(experiment_plain(row))
    else:
        click.echo(done)
