"""The command `det experiment compare`."""

from __future__ import annotations

import sys

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_csv, write_csv
from determined.cli.display.times import with_utc
from determined.cli.experiment.comparison.entries import comparison_entries
from determined.cli.experiment.comparison.output import all_columns, all_rows, comparison_plain, comparison_text
from determined.cli.selection.arguments import Ids, complete_experiments, expand, numbers
from determined.cli.store_access import opened_store

_MOST = 26  # curves are named by letters


@click.command(cls=Command, action="compare the experiments")
@click.argument("experiment_ids", metavar="[IDS]...", nargs=-1, callback=numbers, shell_complete=complete_experiments)
@click.option(
    "--trials", "trial_ids", metavar="IDS", multiple=True, callback=numbers, help="Also compare these trials."
)
@click.option("--metric", metavar="NAME", help="Metric to compare by (default: the searcher metric).")
@click.option("--group", metavar="NAME", help="Group of the metric (default: validation, else training).")
@click.option("--smaller-is-better", type=bool, metavar="BOOL", help="Whether smaller values are better.")
@with_utc
@with_csv
def compare(
    experiment_ids: list[Ids],
    trial_ids: list[Ids],
    metric: str | None,
    group: str | None,
    smaller_is_better: bool | None,
    form: Form,
) -> None:
    """Compare experiments and trials side by side.

    Experiments are compared by their best trials. Hyperparameters that differ are marked with a star; of the
    configuration, only differences are shown. Curves are shown in colour on a terminal, and as letters elsewhere.

    \b
    Example: det experiment compare 3,4,7 --metric accuracy
    """
    if not experiment_ids and not trial_ids:
        raise click.UsageError("name experiments, or trials with --trials")
    experiments, trials = expand("experiment", experiment_ids), expand("trial", trial_ids)
    if len(experiments) + len(trials) > _MOST:
        raise click.UsageError(f"at most {_MOST} can be compared at once")
    with opened_store() as store:
        found = comparison_entries(
            store, experiments, trials, metric=metric, group=group, smaller_is_better=smaller_is_better
        )
    if form == "json":
        print_json(comparison_plain(found))
    elif form == "csv":
        write_csv(sys.stdout, all_columns(found), all_rows(found))
    else:
        click.echo(comparison_text(found))
