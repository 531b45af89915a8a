"""The command `det experiment wait`."""

from __future__ import annotations

import sys
import time

import click

from determined.cli.command import ctrl_c_ends_watching
from determined.cli.display.json_rows import experiment_plain
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.selection.arguments import complete_experiments_that
from determined.cli.selection.bulk import BulkCommand
from determined.cli.store_access import opened_store, retry_while_unavailable
from determined.errors import DeterminedError
from determined.store.standalone_runs import how_to_resume
from determined.store.states import EXPERIMENT_ENDED


@click.command(
    cls=BulkCommand,
    kind="experiment",
    complete=complete_experiments_that("are running"),
    action="wait for {experiment_id:experiment}",
)
@click.option(
    "--polling-interval",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="Polling interval in seconds.",
)
@with_json
def wait(experiment_id: int, polling_interval: float, form: Form) -> None:
    """Wait for an experiment to end.

    The exit code is 0 if it completed, else 1. Waiting for a paused experiment, or one that no process runs, is an
    error. Ctrl-C ends the waiting, not the experiment.

    \b
    Example: det experiment wait 3 && det experiment list-checkpoints 3 --best 1
    """
    from determined.queue.liveness import resume_hints

    abandoned = False
    with ctrl_c_ends_watching(f"experiment {experiment_id}"), opened_store() as store:
        while (
            row := retry_while_unavailable(lambda: store.experiments.get(experiment_id))
        ).state not in EXPERIMENT_ENDED:
            if row.state == "PAUSED":
                why = f" ({row.reason})" if row.reason else ""
                raise DeterminedError(f"it is paused{why}. To resume it: {how_to_resume(row)}")
            # Checked twice in a row: between an experiment's creation and the first step of its runner, no process
            # holds it.
            hints = resume_hints(store, [row])
            if abandoned and hints:
                raise DeterminedError(hints[0])
            abandoned = bool(hints)
            time.sleep(polling_interval)
    if form == "json":
        print_json(experiment_plain(row))
    else:
        click.echo(visible(f"Experiment {experiment_id}: {row.state}" + (f" ({row.reason})" if row.reason else "")))
    sys.exit(0 if row.state == "COMPLETED" else 1)
