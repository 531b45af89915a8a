"""The command `det experiment download`."""

from __future__ import annotations

from pathlib import Path

import click

from determined.cli.checkpoint.downloads import (
    DEFAULT_PARENT,
    default_directory,
    downloaded_plain,
    print_downloaded,
    reported_metrics,
    sorted_by_metric,
    with_order,
    with_quiet,
)
from determined.cli.checkpoint.downloads import (
    download as download_checkpoint,
)
from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.times import with_utc
from determined.cli.selection.arguments import ID, complete_experiments
from determined.cli.store_access import opened_store
from determined.errors import DeterminedError


@click.command(cls=Command, action="download checkpoints of {experiment_id:experiment}")
@click.argument("experiment_id", metavar="ID", type=ID, shell_complete=complete_experiments)
@click.option(
    "-o",
    "--output-dir",
    type=click.Path(path_type=Path),
    default=DEFAULT_PARENT,
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
    chosen = sorted_by_metric(experiment, rows, sort_by, smaller_is_better)[:top_n]
    if not chosen:
        known = ", ".join(reported_metrics(rows)) or "none"
        raise DeterminedError(
            f"no checkpoint of experiment {experiment_id} has a number for the validation metric "
            f"{sort_by or experiment.metric!r}. Validation metrics of its checkpoints: {known}"
        )
    downloaded = [(row, default_directory(row, output_dir)) for row in chosen]
    for row, path in downloaded:
        download_checkpoint(experiment, row, path)
    if form == "json":
        print_json([downloaded_plain(experiment, row, path) for row, path in downloaded])
    else:
        print_downloaded(experiment, downloaded, quiet=quiet)
