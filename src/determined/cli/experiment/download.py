"""The command `det experiment download`."""

from __future__ import annotations

from pathlib import Path

import click

from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.time_zone import with_utc
from determined.cli.downloads import (
    USUAL_DIRECTORY,
    fetch,
    in_order,
    plain_of,
    reported_metrics,
    tell,
    usual_place,
    with_order,
    with_quiet,
)
from determined.cli.groups import Command
from determined.cli.opened import opened_store
from determined.cli.selection.id_lists import complete_experiments
from determined.cli.selection.integers import ID
from determined.errors import DeterminedError


@click.command(cls=Command, action="download checkpoints of {experiment_id:experiment}")
@click.argument("experiment_id", metavar="ID", type=ID, shell_complete=complete_experiments)
@click.option(
    "-o",
    "--output-dir",
    type=click.Path(path_type=Path),
    default=USUAL_DIRECTORY,
    show_default=True,
    help="Each checkpoint is copied to <dir>/<uuid>.",
)
@click.option(
    "--top-n",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of checkpoints (default: 1).",
)
@click.option("--best", is_flag=True, help="The best checkpoint by the searcher metric or --sort-by (the default).")
@with_order
@with_quiet
@with_utc
@with_json
def download(
    experiment_id: int,
    output_dir: Path,
    best: bool,
    top_n: int,
    sort_by: str | None,
    smaller_is_better: bool | None,
    quiet: bool,
    form: Form,
) -> None:
    """Download the best checkpoints of an experiment.

    \b
    Example: det experiment download 3 --top-n 2 -o models
    """
    if best and top_n != 1:
        raise click.UsageError("--best and --top-n exclude each other")
    with opened_store() as store:
        experiment = store.experiments.get(experiment_id)
        rows = store.experiments.checkpoints(experiment_id)
    chosen = in_order(experiment, rows, sort_by, smaller_is_better)[:top_n]
    if not chosen:
        known = ", ".join(reported_metrics(rows)) or "none"
        raise DeterminedError(
            f"no checkpoint of experiment {experiment_id} has a number for the validation metric "
            f"{sort_by or experiment.metric!r}. Validation metrics of its checkpoints: {known}"
        )
    fetched = [(row, usual_place(row, output_dir)) for row in chosen]
    for row, path in fetched:
        fetch(experiment, row, path)
    if form == "json":
        print_json([plain_of(experiment, row, path) for row, path in fetched])
    else:
        tell(experiment, fetched, quiet=quiet)
