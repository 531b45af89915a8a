"""The command `det experiment export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.display.table import size
from determined.cli.file_operations import cleaning_up_on_signals, progress
from determined.cli.selection.arguments import Ids, complete_experiments, expand, numbers
from determined.sentences import counted

if TYPE_CHECKING:
    from determined.experiment.moving.archive_export import Which


@click.command(cls=Command, action="export {experiment_ids:experiment}")
@click.argument(
    "experiment_ids",
    metavar="ID...",
    nargs=-1,
    required=True,
    callback=numbers,
    shell_complete=complete_experiments,
)
@click.option(
    "--checkpoints",
    type=click.Choice(["best", "all", "none"]),
    default="best",
    show_default=True,
    help="Checkpoints to include: the best one and registered ones, all with the outputs of batch inference, or none.",
)
@click.option("--code", is_flag=True, help="Include the code, which activate, continue and fork need.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write (default: experiment-ID.tar).")
@with_json
def export(experiment_ids: list[Ids], checkpoints: Which, code: bool, output: Path | None, form: Form) -> None:
    """Export experiments with their checkpoints and code.

    Writes one archive that `det experiment import` reads on another machine. Secrets in configurations, TensorBoard
    files and working directories of trials are not included.

    \b
    Example: det experiment export 3 --checkpoints all --code -o spirals.tar
    """
    from determined.experiment.moving.archive_export import export_experiments

    experiments = expand("experiment", experiment_ids)
    # At most five ids, because a file name is limited to 255 bytes.
    target = output or Path(f"experiment-{'-'.join(map(str, experiments[:5]))}.tar")
    with progress("files") as report, cleaning_up_on_signals():
        done = export_experiments(target, experiments, which=checkpoints, code=code, progress=report)
    for note in done.notes:
        click.echo(visible(note), err=True)
    if form == "json":
        plain = {"path": str(target.absolute()), "experiments": list(done.experiments), "bytes": target.stat().st_size}
        print_json({**plain, "checkpoints": done.checkpoints, "outputs": done.outputs, "code": done.code})
        return
    parts = [
        counted(len(done.experiments), "experiment"),
        counted(len(done.checkpoints), "checkpoint"),
        counted(len(done.outputs), "output"),
        "code" if done.code else "no code",
    ]
    click.echo(visible(f"Exported to {target} ({size(target.stat().st_size)}): {', '.join(parts)}"))
    click.echo(visible(f"On the other machine: det experiment import {target.name}"))
