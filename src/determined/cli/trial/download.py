"""The command `det trial download`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from determined.cli.checkpoint.downloads import download_one, sorted_by_metric, with_order, with_quiet
from determined.cli.command import Command
from determined.cli.display.output import Form, with_json
from determined.cli.display.times import with_utc
from determined.cli.selection.arguments import ID, complete_trials
from determined.cli.store_access import opened_store
from determined.errors import DeterminedError

if TYPE_CHECKING:
    from determined.store.records import StoredCheckpoint


@click.command(cls=Command, action="download a checkpoint of {trial_id:trial}")
@click.argument("trial_id", metavar="ID", type=ID, shell_complete=complete_trials)
@click.option("--best", is_flag=True, help="The best checkpoint by the searcher metric, or by --sort-by.")
@click.option("--latest", is_flag=True, help="The newest checkpoint.")
@click.option("--uuid", "checkpoint_id", help="The checkpoint with this id.")
@click.option(
    "-o", "--output-dir", type=click.Path(path_type=Path), help="Directory to write to (default: checkpoints/<uuid>)."
)
@with_order
@with_quiet
@with_utc
@with_json
def download(
    trial_id: int,
    best: bool,
    latest: bool,
    checkpoint_id: str | None,
    output_dir: Path | None,
    sort_by: str | None,
    smaller_is_better: bool | None,
    quiet: bool,
    form: Form,
) -> None:
    """Download a checkpoint of a trial.

    Choose it with exactly one of --best, --latest and --uuid. A directory with other contents is not overwritten.

    \b
    Example: det trial download 7 --best -o best-model
    """
    if sum((best, latest, checkpoint_id is not None)) != 1:
        raise click.UsageError("give exactly one of --best, --latest and --uuid")
    if not best and (sort_by is not None or smaller_is_better is not None):
        raise click.UsageError("--sort-by and --smaller-is-better require --best")
    with opened_store() as store:
        experiment = store.experiments.get(store.experiments.trial(trial_id).experiment_id)
        rows = store.checkpoints(trial_id)  # newest first
    if best:
        found = sorted_by_metric(experiment, rows, sort_by, smaller_is_better)
    elif latest:
        found = [row for row in rows if row.state == "ACTIVE"]
    else:
        found = [row for row in rows if row.checkpoint_id == checkpoint_id]
    if not found:
        raise DeterminedError(_why_not_found(trial_id, rows, checkpoint_id, best))
    download_one(experiment, found[0], output_dir, quiet=quiet, form=form)


def _why_not_found(trial_id: int, rows: list[StoredCheckpoint], checkpoint_id: str | None, best: bool) -> str:
    """Return why no checkpoint was found."""
    if checkpoint_id is not None:
        return f"trial {trial_id} has no checkpoint {checkpoint_id!r}"
    if not any(row.state == "ACTIVE" for row in rows):
        return f"trial {trial_id} has no checkpoint" + (": all were deleted" if rows else " yet")
    assert best
    return f"no checkpoint of trial {trial_id} has a number for that validation metric; --latest takes the newest one"
