"""The command `det experiment list-trials`."""

from __future__ import annotations

import click

from determined.cli.command import Command
from determined.cli.display.output import ColumnChoice, Form, Page, show_list, with_columns, with_csv, with_paging
from determined.cli.display.times import with_utc
from determined.cli.experiment.views.leaderboard import leaderboard
from determined.cli.selection.arguments import ID, Count, complete_experiments
from determined.cli.store_access import opened_store


@click.command("list-trials", cls=Command, action="list the trials of {experiment_id:experiment}")
@click.argument("experiment_id", metavar="ID", type=ID, shell_complete=complete_experiments)
@click.option("--sort-by", metavar="NAME", help="A hyperparameter, a validation metric, or one of the words below.")
@click.option(
    "--smaller-is-better", type=bool, metavar="BOOL", help="Direction of a metric that is not the searcher's."
)
@click.option("--reverse", is_flag=True, help="The other way round; trials without a value stay last.")
@click.option("--top", type=Count(min=1), metavar="N", help="Only the first N trials.")
@with_paging
@with_utc
@with_csv
@with_columns
def list_trials(
    experiment_id: int,
    sort_by: str | None,
    smaller_is_better: bool | None,
    reverse: bool,
    top: int | None,
    page: Page,
    form: Form,
    columns: ColumnChoice,
) -> None:
    """List the trials of an experiment, the best first.

    Sorted by the best value of the searcher metric; of equal trials the oldest comes first, and those without a number
    last. --sort-by also takes best, latest, id, state, started, ended, duration and batches. A terminal shows the
    metric and a column for each searched hyperparameter.

    \b
    Example: det experiment list-trials 3 --top 5
    """
    with opened_store() as store:
        experiment = store.experiments.get(experiment_id)
        board = leaderboard(store, experiment, sort_by=sort_by, smaller_is_better=smaller_is_better, reverse=reverse)
    entries = page.of(board.entries[:top])
    show_list(form, board.fields(), entries, lambda: [board.plain(entry) for entry in entries], columns)
