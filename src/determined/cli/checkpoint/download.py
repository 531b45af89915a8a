"""`det checkpoint download`."""

from __future__ import annotations

from pathlib import Path

import click

from determined.cli.downloads import fetch_one, with_quiet
from determined.cli.groups import Command, explain_unused
from determined.cli.opened import opened_store
from determined.cli.output import Form, with_json
from determined.cli.zone import with_utc


@click.command(cls=Command)
@click.argument("uuid")
@click.option("-o", "--output-dir", type=click.Path(path_type=Path), help="Where to; without it checkpoints/<uuid>.")
@click.option(
    "--mode", type=click.Choice(["direct", "master", "auto"]), default="auto", help="Accepted for old command lines."
)
@with_quiet
@with_utc
@with_json
def download(uuid: str, output_dir: Path | None, mode: str, quiet: bool, form: Form) -> None:
    """Download a checkpoint.

    It comes whole or not at all. A directory that holds anything else is left alone.

    \b
    Example: det checkpoint download 4cf2ea8e-43c2-4b43-b2fa-2c07d7ea4a4c -o model
    """
    explain_unused("--mode master", mode == "master", "there is no master; the storage is read directly")
    with opened_store() as store:
        row = store.upkeep.checkpoint(uuid)
        experiment = store.experiments.get(store.experiments.trial(row.trial_id).experiment_id)
    fetch_one(experiment, row, output_dir, quiet=quiet, form=form)
