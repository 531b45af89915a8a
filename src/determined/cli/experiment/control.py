"""`det experiment pause`, `cancel` and `kill`: requests that the experiment's runner handles within a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from determined.cli.display.json_rows import experiment_plain
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.selection.arguments import complete_experiments_that
from determined.cli.selection.bulk import BulkCommand
from determined.cli.store_access import opened_store

if TYPE_CHECKING:
    from determined.stop_request import StopRequest


@click.command(
    cls=BulkCommand,
    kind="experiment",
    filters=True,
    complete=complete_experiments_that("are running"),
    action="pause {experiment_id:experiment}",
)
@with_json
def pause(experiment_id: int, form: Form) -> None:
    """Pause an experiment.

    Its trials save a checkpoint and release their slots; `activate` resumes from there.

    \b
    Example: det experiment pause 3
    """
    _request(experiment_id, "pause", form)


@click.command(
    cls=BulkCommand,
    kind="experiment",
    filters=True,
    complete=complete_experiments_that("have not ended"),
    action="cancel {experiment_id:experiment}",
)
@with_json
def cancel(experiment_id: int, form: Form) -> None:
    """Cancel an experiment.

    Its trials save a final checkpoint and end.

    \b
    Example: det experiment cancel 3
    """
    _request(experiment_id, "cancel", form)


@click.command(
    cls=BulkCommand,
    kind="experiment",
    filters=True,
    complete=complete_experiments_that("have not ended"),
    action="kill {experiment_id:experiment}",
)
@with_json
def kill(experiment_id: int, form: Form) -> None:
    """Kill an experiment.

    Its trials end at once; work since their last checkpoints is lost.

    \b
    Example: det experiment kill 3
    """
    _request(experiment_id, "kill", form)


def _request(experiment_id: int, kind: StopRequest, form: Form) -> None:
    """Store a request for the runner of an experiment, and print what happens."""
    from determined.experiment.control import request

    with opened_store() as store:
        done = request(store, experiment_id, kind)
        row = store.experiments.get(experiment_id)
    if form == "json":
        print_json(experiment_plain(row))
    else:
        click.echo(done)
