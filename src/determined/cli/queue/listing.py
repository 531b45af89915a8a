"""`det queue list`."""

from __future__ import annotations

import socket

import click

from determined.cli.groups import Command
from determined.cli.opened import opened_store
from determined.cli.output import Form, show, with_csv
from determined.cli.queue.elsewhere import elsewhere
from determined.cli.queue.plain import entry_plain
from determined.cli.render import Column, percent, time_text
from determined.cli.zone import with_utc

_COLUMNS = [
    Column("Position"),
    Column("Experiment ID", rank=0),
    Column("Name", long=True),
    Column("Priority"),
    Column("State", rank=0),
    Column("Slots"),
    Column("Progress"),
    Column("Added"),
]


@click.command("list", cls=Command, action="list the queue")
@with_utc
@with_csv
def list(form: Form) -> None:
    """List the experiments in the queue.

    Your experiments on this machine, in scheduling order. The Slots column shows which are running.

    \b
    Example: det queue list
    """
    from determined.queue.daemon import IS_LEAVING
    from determined.queue.files import QueueFiles
    from determined.queue.status import read_status
    from determined.store.open import checked_place
    from determined.store.process import this_user

    with opened_store() as store:
        entries = store.queue.entries(socket.gethostname(), this_user())
        others = elsewhere(store)
        experiments = {entry.experiment_id: store.experiments.get(entry.experiment_id) for entry in entries}
    status = read_status(QueueFiles.of(checked_place()))
    running = {} if status is None else status.running
    rows = [
        entry_plain(entry, position, experiments[entry.experiment_id], running.get(entry.experiment_id, []))
        for position, entry in enumerate(entries, start=1)
    ]
    cells = [
        [
            row["position"],
            row["experiment_id"],
            row["name"],
            row["priority"],
            row["state"],
            len(row["slots"]),
            percent(row["progress"]),
            time_text(entry.added),
        ]
        for row, entry in zip(rows, entries, strict=True)
    ]
    show(form, _COLUMNS, cells, lambda: rows)
    if rows and status is None:
        click.echo("No process serves the queue; resume with: det queue resume", err=form != "table")
    if rows and status is not None and status.leaving:
        click.echo(f"{IS_LEAVING[0].upper()}{IS_LEAVING[1:]}", err=form != "table")
    if others:
        click.echo(others, err=form != "table")
