"""The command `det experiment decisions`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from determined.cli.command import Command
from determined.cli.display.output import (
    ColumnChoice,
    Field,
    Form,
    Page,
    show_list,
    with_columns,
    with_csv,
    with_paging,
)
from determined.cli.display.safe_text import visible
from determined.cli.selection.arguments import ID, complete_experiments
from determined.cli.store_access import opened_store

if TYPE_CHECKING:
    from determined.experiment.search_decisions import Decision


@click.command(cls=Command, action="show the decisions of the search of {experiment_id:experiment}")
@click.argument("experiment_id", metavar="ID", type=ID, shell_complete=complete_experiments)
@click.option("--trial", "trial_id", type=ID, metavar="TRIAL_ID", help="Only decisions about this trial.")
@with_paging
@with_csv
@with_columns
def decisions(experiment_id: int, trial_id: int | None, page: Page, form: Form, columns: ColumnChoice) -> None:
    """Show why the search promoted and stopped its trials.

    One row per decision, in the order in which they were made, with the reason in words: the metric, the place among
    the trials that were compared, and how many of them were promoted.

    \b
    Example: det experiment decisions 3 --trial 7
    """
    from determined.experiment.search_decisions import search_decisions

    with opened_store() as store:
        if trial_id is not None and store.experiments.trial(trial_id).experiment_id != experiment_id:
            raise click.UsageError(f"trial {trial_id} does not belong to experiment {experiment_id}")
        found = search_decisions(store, experiment_id)
    if found.problem is not None:
        click.echo(f"Note: {visible(found.problem)}", err=True)
    rows = [row for row in found.decisions if trial_id is None or row.trial_id == trial_id]
    if not found.decisions:
        click.echo(f"Note: experiment {experiment_id} has no decisions: it has not begun, or has no search.", err=True)
    rows = page.of(rows)
    show_list(form, _FIELDS, rows, lambda: {**asdict(found), "decisions": [asdict(row) for row in rows]}, columns)


_FIELDS: list[Field[Decision]] = [
    Field("#", lambda row: row.sequence),
    Field("Trial ID", lambda row: row.trial_id),
    Field("Decision", lambda row: row.kind),
    Field("Reason", lambda row: row.text, long=True),
    Field("Bracket", lambda row: None if row.bracket is None else row.bracket + 1, shown="wide"),
    Field("Rung", lambda row: row.rung, shown="wide"),
    Field("Time", lambda row: row.time, shown="wide"),
    Field("Metric", lambda row: row.metric, shown="wide"),
    Field("Place", lambda row: row.place, shown="wide"),
    Field("Of", lambda row: row.of, shown="wide"),
]
