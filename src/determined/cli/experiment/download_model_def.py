"""The command `det experiment download-model-def`."""

from __future__ import annotations

from pathlib import Path

import click

from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.file_operations import refuse_existing
from determined.cli.selection.bulk import BulkCommand
from determined.cli.store_access import opened_store


@click.command(
    "download-model-def", cls=BulkCommand, kind="experiment", action="download the code of {experiment_id:experiment}"
)
@click.option(
    "-o",
    "--output-dir",
    type=click.Path(path_type=Path),
    default=".",
    help="Directory to write to (default: the current one).",
)
@with_json
def download_model_def(experiment_id: int, output_dir: Path, form: Form) -> None:
    """Download the code of an experiment.

    The code is as it was when the experiment was created. It is written to experiment_<ID>_model_def.tgz, which must
    not exist yet.

    \b
    Example: det experiment download-model-def 3
    """
    from determined.experiment.code.archive import write_code_archive

    with opened_store() as store:
        experiment = store.experiments.get(experiment_id)
    name = f"experiment_{experiment_id}_model_def.tgz"
    refuse_existing(output_dir / name)
    path = write_code_archive(experiment, output_dir, name)
    if form == "json":
        print_json({"id": experiment_id, "path": str(path)})
    else:
        click.echo(visible(str(path)))
