"""`det experiment list-trials`."""

from __future__ import annotations

import click

from determined.cli.groups import Command
from determined.cli.opened import opened_store
from determined.cli.output import Form, show, with_csv
from determined.cli.paging import Page, with_paging
from determined.cli.plain import trial_plain
from determined.cli.render import Column, time_text
from determined.cli.whole_numbers import ID
from determined.cli.zone import with_utc

_COLUMNS = [
    Column("Trial ID"),
    Column("State"),
    Column("H-Params", long=True),
    Column("Started"),
    Column("Ended"),
    Column("# of Batches"),
]


@click.command("list-trials", cls=Command, action="list the trials of {experiment_id:experiment}")
@click.argument("experiment_id", metavar="ID", type=ID)
@with_paging
@with_utc
@with_csv
def list_trials(experiment_id: int, page: Page, form: Form) -> None:
    """List the trials of an experiment.

    \b
    Example: det experiment list-trials 3 --csv
    """
    with opened_store() as store:
        store.experiments.get(experiment_id)  # an id that is not there is told from one without trials
        trials = page.of(store.experiments.trials(experiment_id))
    cells = [
        [row.id, row.state, row.effective_hparams, time_text(row.started), time_text(row.ended), row.steps_completed]
        for row in trials
    ]
    show(form, _COLUMNS, cells, lambda: [trial_plain(row) for row in trials])
