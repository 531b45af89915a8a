"""The command `det queue list`."""

from __future__ import annotations

import socket

import click

from determined.cli.display.columns import ColumnChoice, Field, show_list, with_columns
from determined.cli.display.output import Form, with_csv
from determined.cli.display.table import percent, time_text
from determined.cli.display.time_zone import with_utc
from determined.cli.display.times import ago
from determined.cli.groups import Command
from determined.cli.opened import opened_store
from determined.cli.queue.elsewhere import elsewhere
from determined.cli.queue.plain import Queued, queued_plain

_FIELDS: list[Field[Queued]] = [
    Field("Position", lambda row: row.position),
    Field("Experiment ID", lambda row: row.entry.experiment_id, rank=0),
    Field("Name", lambda row: row.experiment.name, long=True),
    Field("Priority", lambda row: row.entry.priority),
    Field("State", lambda row: row.experiment.state, rank=0),
    Field("Slots", lambda row: len(row.slots), rank=0),
    Field("Progress", lambda row: percent(row.experiment.progress)),
    Field("Added", lambda row: time_text(row.entry.added), on_terminal=lambda row: ago(row.entry.added)),
    Field("Max Slots", lambda row: row.entry.slots, shown="wide"),
    Field("Max Trials", lambda row: row.entry.max_trials, shown="wide"),
]


@click.command("list", cls=Command, action="list the queue")
@with_utc
@with_csv
@with_columns
def list(form: Form, columns: ColumnChoice) -> None:
    """List the experiments in the queue.

    Your experiments on this machine, in scheduling order. The states are those of det experiment list: an ACTIVE
    experiment is running if it holds slots, and waits if the Slots column shows 0.

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
        Queued(position, entry, experiments[entry.experiment_id], running.get(entry.experiment_id, []))
        for position, entry in enumerate(entries, start=1)
    ]
    show_list(form, _FIELDS, rows, lambda: [queued_plain(row) for row in rows], columns)
    if rows and status is None:
        click.echo("No process serves the queue; resume with: det queue resume", err=form != "table")
    if rows and status is not None and status.leaving:
        click.echo(f"{IS_LEAVING[0].upper()}{IS_LEAVING[1:]}", err=form != "table")
    if others:
        click.echo(others, err=form != "table")
