"""The commands `det experiment archive` and `unarchive`."""

from __future__ import annotations

import click

from determined.cli.display.json_rows import experiment_plain
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.selection.arguments import complete_experiments_that
from determined.cli.selection.bulk import BulkCommand
from determined.cli.store_access import opened_store


@click.command(
    cls=BulkCommand,
    kind="experiment",
    filters=True,
    complete=complete_experiments_that("can be archived"),
    action="archive {experiment_id:experiment}",
)
@with_json
def archive(experiment_id: int, form: Form) -> None:
    """Archive an experiment.

    The experiment must have ended. `det experiment list` then shows it only with --all; nothing is deleted.

    \b
    Example: det experiment archive 3
    """
    _set(experiment_id, True, form)


@click.command(
    cls=BulkCommand,
    kind="experiment",
    filters=True,
    archived="only",
    complete=complete_experiments_that("are archived"),
    action="unarchive {experiment_id:experiment}",
)
@with_json
def unarchive(experiment_id: int, form: Form) -> None:
    """Unarchive an experiment.

    \b
    Example: det experiment unarchive 3
    """
    _set(experiment_id, False, form)


def _set(experiment_id: int, archived: bool, form: Form) -> None:
    """Archive or unarchive an experiment, and print the result."""
    with opened_store() as store:
        store.upkeep.set_archived(experiment_id, archived)
        row = store.experiments.get(experiment_id)
    if form == "json":
        print_json(experiment_plain(row))
    else:
        click.echo(f"Experiment {experiment_id}: {'archived' if archived else 'unarchived'}")
