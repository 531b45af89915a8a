"""The command `det store export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.file_operations import cleaning_up_on_signals, progress
from determined.sentences import counted

if TYPE_CHECKING:
    from determined.store.moving.exporting import Format


@click.command(cls=Command, action="export the store")
@click.argument("target", metavar="PATH", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["jsonl", "parquet"]),
    default="jsonl",
    show_default=True,
    help="One file of JSON lines, or a directory with a Parquet file for each table.",
)
@click.option(
    "--experiment", "experiments", type=int, multiple=True, metavar="ID", help="Only this experiment (repeatable)."
)
@with_json
def export(target: Path, file_format: Format, experiments: tuple[int, ...], form: Form) -> None:
    """Export experiments to files.

    The export contains records: trials, metrics, logs, checkpoints and models. Files of checkpoints and code are not
    included.

    \b
    Example: det store export all.jsonl
    """
    from determined.store.moving.exporting import export_store

    with progress("rows") as report, cleaning_up_on_signals():
        done = export_store(target, file_format, experiments or None, report)
    for experiment_id in done.running:
        click.echo(f"Experiment {experiment_id} is running: its later changes are not exported", err=True)
    if form == "json":
        plain = {"path": str(done.path.absolute()), "format": file_format, "rows": done.rows}
        print_json({**plain, "running": list(done.running)})
        return
    rows = sum(done.rows.values())
    click.echo(
        visible(f"Exported {counted(done.rows['experiments'], 'experiment')} ({counted(rows, 'row')}) to {target}")
    )
    click.echo(f"To import them into another store: DET_STORE=<store> det store import {visible(str(target))}")
