"""`det experiment list`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from determined.cli.groups import Command
from determined.cli.holders import advice
from determined.cli.opened import opened_store
from determined.cli.output import Form, show, with_csv
from determined.cli.paging import Page, with_paging
from determined.cli.plain import experiment_plain, resource_pool
from determined.cli.render import Column, percent, time_text
from determined.cli.zone import with_utc

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment

_COLUMNS = [
    Column("ID"),
    Column("Owner"),
    Column("Name", long=True),
    Column("Parent ID"),
    Column("State"),
    Column("Progress"),
    Column("Started"),
    Column("Ended"),
    Column("Resource Pool"),
]
_EVERYTHING = 2**31


@click.command("list", cls=Command, action="list the experiments")
@click.option("-a", "--all", "archived", is_flag=True, help="Also show archived experiments.")
@click.option("--show_project", "projects", is_flag=True, help="Also show workspace and project.")
@with_paging
@with_utc
@with_csv
def list(archived: bool, projects: bool, page: Page, form: Form) -> None:
    """List experiments.

    \b
    Example: det experiment list --limit 20
    """
    with opened_store() as store:
        rows = store.experiments.list(limit=page.limit or _EVERYTHING, offset=page.offset, archived=archived)
        hints = advice(store, rows) if form == "table" and sys.stdout.isatty() else []
    columns = [*_COLUMNS]
    columns += [Column("Workspace"), Column("Project")] if projects else []
    columns += [Column("Archived")] if archived else []
    cells = [
        [
            row.id,
            row.owner,
            row.name,
            row.parent_id,
            row.state,
            percent(row.progress),
            time_text(row.created),
            time_text(row.ended),
            resource_pool(row),
            *(_place_of(row).values() if projects else []),
            *([row.archived] if archived else []),
        ]
        for row in rows
    ]
    show(
        form,
        columns,
        cells,
        lambda: [{**experiment_plain(row), **(_place_of(row) if projects else {})} for row in rows],
    )
    if form == "table" and sys.stdout.isatty():
        for hint in hints:
            click.echo(hint)
        if not rows and not page.offset:
            click.echo("No experiments yet. Begin with: det experiment create config.yaml .")


def _place_of(row: Experiment) -> dict[str, Any]:
    return {"workspace": row.config.get("workspace"), "project": row.config.get("project")}
