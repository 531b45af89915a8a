"""The command `det experiment list`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from determined.cli.command import Command
from determined.cli.display.json_rows import experiment_plain
from determined.cli.display.output import ColumnChoice, Form, Page, show_list, with_columns, with_csv, with_paging
from determined.cli.display.times import with_utc
from determined.cli.experiment.views.experiment_columns import experiment_fields
from determined.cli.selection.arguments import with_filters
from determined.cli.store_access import opened_store
from determined.config.stored import StoredConfig
from determined.store.experiment_records import ALL_EXPERIMENTS
from determined.store.process import is_abandoned

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment, ExperimentFilter


@click.command("list", cls=Command, action="list the experiments")
@click.option("-a", "--all", "archived", is_flag=True, help="Also show archived experiments.")
@click.option("--show_project", "projects", is_flag=True, help="Also show workspace and project.")
@with_filters
@with_paging
@with_utc
@with_csv
@with_columns
def list(archived: bool, projects: bool, only: ExperimentFilter, page: Page, form: Form, columns: ColumnChoice) -> None:
    """List experiments.

    On a terminal empty columns are hidden, and times are relative.

    \b
    Example: det experiment list --state error,paused --since 2d
    """
    with opened_store() as store:
        rows = store.experiments.list(limit=page.limit, offset=page.offset, archived=archived, only=only)
        hints = []
        if form == "table" and sys.stdout.isatty() and any(map(is_abandoned, rows)):
            from determined.queue.liveness import resume_hints  # most lists do not need it

            hints = resume_hints(store, rows)
    show_list(
        form,
        experiment_fields(projects=projects, archived=archived),
        rows,
        lambda: [{**experiment_plain(row), **(_workspace_of(row) if projects else {})} for row in rows],
        columns,
    )
    if form == "table" and sys.stdout.isatty():
        for hint in hints:
            click.echo(hint)
        if not rows and only != ALL_EXPERIMENTS:
            click.echo("No experiment matches.")
        elif not rows and not page.offset:
            click.echo("No experiments yet. Create one with: det experiment create config.yaml .")


def _workspace_of(row: Experiment) -> dict[str, Any]:
    """Return the workspace and project in the configuration of an experiment."""
    config = StoredConfig(row.config)
    return {"workspace": config.workspace, "project": config.project}
