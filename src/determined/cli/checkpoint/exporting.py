"""The command `det checkpoint export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.display.table import size
from determined.cli.file_operations import refuse_existing
from determined.cli.selection.arguments import complete_checkpoints
from determined.cli.store_access import opened_store
from determined.errors import CheckpointStateException
from determined.sentences import counted

if TYPE_CHECKING:
    from determined.pytorch.checkpoint.plain_weights import Format

_ENDINGS = {"torch": ".pt", "safetensors": ".safetensors"}


@click.command(cls=Command, action="export {checkpoint_id:checkpoint}")
@click.argument("checkpoint_id", metavar="UUID", shell_complete=complete_checkpoints)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["torch", "safetensors"]),
    help="A file for torch.load(weights_only=True), or a safetensors file (default: safetensors if PATH ends with "
    ".safetensors, else torch).",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write (default: UUID.pt).")
@with_json
def export(checkpoint_id: str, file_format: Format | None, output: Path | None, form: Form) -> None:
    """Export the weights of a checkpoint.

    Writes the state dict of the model, which programs without this library can load. With several models each name
    begins with the number of its model: `0.`, `1.` and so on.

    \b
    Example: det checkpoint export 4cf2ea8e-43c2-4b43-b2fa-2c07d7ea4a4c -o model.safetensors
    """
    from determined.checkpoint_storage.base import checked_id

    if file_format is None:
        file_format = "safetensors" if output is not None and output.suffix == _ENDINGS["safetensors"] else "torch"
    target = output or Path(checked_id(checkpoint_id) + _ENDINGS[file_format])
    # Before torch is imported, which takes seconds.
    refuse_existing(target)
    with opened_store() as store:
        row = store.upkeep.checkpoint(checkpoint_id)
        experiment = store.experiments.get(store.experiments.trial(row.trial_id).experiment_id)
    if row.state == "DELETED":
        raise CheckpointStateException(f"it is {row.shown_state}")
    # Imported after the cheap checks.
    from determined.experiment.checkpoints.storage_lookup import storage_of
    from determined.pytorch.checkpoint.plain_weights import read_weights, write_weights

    with storage_of(experiment, row.storage).open(checkpoint_id) as path:
        models = read_weights(path, checkpoint_id)
    write_weights(models, target, file_format, checkpoint_id)
    tensors, written = sum(len(model) for model in models), target.stat().st_size
    if form == "json":
        plain = {"uuid": checkpoint_id, "path": str(target.absolute()), "format": file_format, "models": len(models)}
        print_json({**plain, "tensors": tensors, "bytes": written})
        return
    exported = f"{counted(tensors, 'tensor')} of {counted(len(models), 'model')}"
    click.echo(visible(f"Exported {exported} to {target} ({size(written)})"))
