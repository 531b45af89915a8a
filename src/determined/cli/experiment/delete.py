"""The commands `det experiment delete` and `delete-tb-files`."""

from __future__ import annotations

import click

from determined.cli.command import confirm, with_yes
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.display.safe_text import visible
from determined.cli.selection.arguments import complete_experiments_that
from determined.cli.selection.bulk import BulkCommand
from determined.cli.store_access import opened_store
from determined.sentences import counted


@click.command(
    cls=BulkCommand,
    kind="experiment",
    filters=True,
    archived="on request",
    complete=complete_experiments_that("can be deleted"),
    action="delete {experiment_id:experiment}",
)
@with_yes
@with_json
def delete(experiment_id: int, yes: bool, form: Form) -> None:
    """Delete an experiment and all its data.

    Deletes checkpoints, outputs, code, TensorBoard files, logs and records. The experiment must have ended. Nothing is
    deleted if one of its checkpoints is registered as a version of a model, or another experiment starts from one.
    Files of an imported experiment belong to another store, and are kept.

    \b
    Example: det experiment delete 3
    """
    from determined.experiment.deletion import delete_experiment
    from determined.experiment.deletion_plan import deletion_question

    with opened_store() as store:
        row = store.experiments.get(experiment_id)
        confirm(deletion_question(store, experiment_id), yes=yes)
        done = delete_experiment(store, experiment_id)
    if form == "json":
        print_json(
            {
                "id": experiment_id,
                "checkpoints": done.checkpoints,
                "outputs": done.outputs,
                "directories": [str(path) for path in done.directories],
                "left": done.left,
            }
        )
        return
    click.echo(f"Deleted experiment {experiment_id}")
    if row.borrowed:
        why = f"experiment {experiment_id} was imported, and its files belong to the store that it comes from"
    else:
        why = "it is not below the data directory, or not on this machine"
    for path in done.left:
        click.echo(visible(f"{path} was kept: {why}"))


@click.command(
    "delete-tb-files",
    cls=BulkCommand,
    kind="experiment",
    filters=True,
    archived="on request",
    complete=complete_experiments_that("are not running"),
    action="delete the TensorBoard files of {experiment_id:experiment}",
)
@with_yes
@with_json
def delete_tb_files(experiment_id: int, yes: bool, form: Form) -> None:
    """Delete the TensorBoard files of an experiment.

    The experiment must not be running.

    \b
    Example: det experiment delete-tb-files 3
    """
    from determined.experiment.deletion import delete_tensorboard_files

    with opened_store() as store:
        row = store.experiments.get(experiment_id)
        confirm(f"Delete the TensorBoard files of experiment {row.id} ({row.name})?", yes=yes)
        removed = delete_tensorboard_files(store, experiment_id)
    if form == "json":
        print_json({"id": experiment_id, "directories": [str(path) for path in removed]})
    else:
        click.echo(f"Experiment {experiment_id}: TensorBoard files of {counted(len(removed), 'run')} deleted")
