"""The command `det checkpoint download`."""

from __future__ import annotations

from pathlib import Path

import click

from determined.checkpoint_storage.outputs import is_output_id
from determined.cli.checkpoint.downloads import download_one, with_quiet
from determined.cli.command import Command, explain_unused
from determined.cli.display.json_rows import output_plain
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.display.times import with_utc
from determined.cli.selection.arguments import complete_checkpoints
from determined.cli.store_access import opened_store
from determined.sentences import counted


@click.command(cls=Command, action="download {checkpoint_id:checkpoint}")
@click.argument("checkpoint_id", metavar="UUID", shell_complete=complete_checkpoints)
@click.option(
    "-o", "--output-dir", type=click.Path(path_type=Path), help="Directory to write to (default: checkpoints/<uuid>)."
)
@click.option(
    "--mode", type=click.Choice(["direct", "master", "auto"]), default="auto", help="Accepted for old command lines."
)
@with_quiet
@with_utc
@with_json
def download(checkpoint_id: str, output_dir: Path | None, mode: str, quiet: bool, form: Form) -> None:
    """Download a checkpoint.

    The copy is complete or absent. A directory with other contents is not overwritten. UUID may also be an output of
    batch inference: it is copied to outputs/<id>, and an earlier copy there is updated.

    \b
    Example: det checkpoint download 4cf2ea8e-43c2-4b43-b2fa-2c07d7ea4a4c -o model
    """
    explain_unused("--mode master", mode == "master", "there is no master; the storage is read directly")
    if is_output_id(checkpoint_id):
        _download_output(checkpoint_id, output_dir, quiet=quiet, form=form)
        return
    with opened_store() as store:
        row = store.upkeep.checkpoint(checkpoint_id)
        experiment = store.experiments.get(store.experiments.trial(row.trial_id).experiment_id)
    download_one(experiment, row, output_dir, quiet=quiet, form=form)


def _download_output(output_id: str, directory: Path | None, *, quiet: bool, form: Form) -> None:
    """Download an output of batch inference."""
    from determined.experiment.checkpoints.output_download import download_output

    with opened_store() as store:
        row = store.outputs.get(output_id)
        experiment = store.experiments.get(store.experiments.trial(row.trial_id).experiment_id)
    path = Path("outputs", row.uuid) if directory is None else directory
    download_output(experiment, row, path)
    if form == "json":
        print_json({**output_plain(row), "experiment_id": experiment.id, "path": str(path)})
    else:
        click.echo(
            visible(str(path) if quiet else f"Local output path: {path} ({counted(len(row.resources), 'file')})")
        )
