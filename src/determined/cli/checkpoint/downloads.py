"""Download checkpoints into directories, and print where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from determined.cli.checkpoint.rows import COLUMNS, checkpoint_row, described_plain
from determined.cli.display.output import Form, print_json
from determined.cli.display.safe_text import visible
from determined.cli.display.table import one_row, table
from determined.config.metric_values import is_finite
from determined.errors import CheckpointNotFound, CheckpointStateException, DeterminedError
from determined.store.ranking import best_checkpoints

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment
    from determined.store.records import StoredCheckpoint

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_PARENT = Path("checkpoints")


def with_order(command: F) -> F:
    """Add `--sort-by` and `--smaller-is-better` to a command, to choose another order than the searcher's."""
    smaller = click.option(
        "--smaller-is-better", type=bool, metavar="BOOL", help="Whether smaller values of that metric are better."
    )
    return click.option("--sort-by", metavar="METRIC", help="Validation metric that decides which is best.")(
        smaller(command)
    )


def with_quiet(command: F) -> F:
    """Add the option `--quiet` to a command, as the argument `quiet`."""
    return click.option("-q", "--quiet", is_flag=True, help="Only print the path.")(command)


def sorted_by_metric(
    experiment: Experiment, rows: list[StoredCheckpoint], sort_by: str | None, smaller_is_better: bool | None
) -> list[StoredCheckpoint]:
    """Return the complete checkpoints that have a number for the metric, best first; by default the searcher metric."""
    if sort_by is None and smaller_is_better is not None:
        raise click.UsageError("--smaller-is-better requires --sort-by")
    metric = experiment.metric if sort_by is None else sort_by
    if metric is None:
        known = ", ".join(reported_metrics(rows)) or "none"
        raise DeterminedError(
            "no searcher metric was recorded; choose one with --sort-by METRIC --smaller-is-better true|false. "
            f"Validation metrics of its checkpoints: {known}"
        )
    if smaller_is_better is None:
        if metric != experiment.metric:
            raise click.UsageError(f"--sort-by {metric} requires --smaller-is-better true or false")
        smaller_is_better = experiment.smaller_is_better
    return best_checkpoints(rows, metric, smaller_is_better)


def reported_metrics(rows: list[StoredCheckpoint]) -> list[str]:
    """Return the sorted names of numeric validation metrics of these checkpoints."""
    found = {name for row in rows for name, value in (row.validation or {}).items() if is_finite(value)}
    # Counters that are added to every report; sorting by them makes no sense.
    return sorted(found - {"batches", "epochs", "records"})


def default_directory(row: StoredCheckpoint, parent: Path = DEFAULT_PARENT) -> Path:
    """Return the directory named after the checkpoint; raise for an id that could lead outside of `parent`."""
    from determined.checkpoint_storage.base import checked_id

    # The id comes from the store and becomes part of a path.
    return parent / checked_id(row.checkpoint_id)


def download(experiment: Experiment, row: StoredCheckpoint, target: Path) -> None:
    """Download a checkpoint to a directory; raise if it was deleted or its files are not available."""
    from determined.experiment.checkpoints.download import download_checkpoint
    from determined.experiment.checkpoints.storage_lookup import storage_of

    if row.state == "DELETED":
        raise CheckpointStateException(f"checkpoint {row.checkpoint_id} is {row.shown_state}")
    try:
        download_checkpoint(storage_of(experiment, row.storage), row.checkpoint_id, target, row.resources)
    except CheckpointNotFound as error:
        if not row.borrowed:
            raise
        raise CheckpointNotFound(
            f"{error}: it was imported without its files. Export it with --checkpoints all, or import with --map "
            "OLD=NEW if its storage is mounted elsewhere"
        ) from error


def downloaded_plain(experiment: Experiment, row: StoredCheckpoint, path: Path) -> dict[str, Any]:
    """Return a downloaded checkpoint and its path as JSON data."""
    return {**described_plain(experiment, row), "path": str(path)}


def print_downloaded(
    experiment: Experiment, downloaded: Sequence[tuple[StoredCheckpoint, Path]], *, quiet: bool
) -> None:
    """Print the downloaded checkpoints and their paths; with `quiet` only the paths."""
    if not quiet:
        rows = [checkpoint_row(experiment, row) for row, _ in downloaded]
        click.echo((one_row(COLUMNS, rows[0]) if len(rows) == 1 else table(COLUMNS, rows)) + "\n")
    for _, path in downloaded:
        click.echo(visible(str(path) if quiet else f"Local checkpoint path: {path}"))


def download_one(
    experiment: Experiment, row: StoredCheckpoint, directory: Path | None, *, quiet: bool, form: Form
) -> None:
    """Download a checkpoint to `directory`, or to the default place, and print the result."""
    path = default_directory(row) if directory is None else directory
    download(experiment, row, path)
    if form == "json":
        print_json(downloaded_plain(experiment, row, path))
    else:
        print_downloaded(experiment, [(row, path)], quiet=quiet)
