"""The command `det queue list`."""

from __future__ import annotations

import socket

import click

from determined.cli.command import Command
from determined.cli.display.output import ColumnChoice, Form, show_list, with_columns, with_csv
from determined.cli.display.times import with_utc
from determined.cli.queue.rows import FIELDS, Queued, other_queues_text, queued_plain
from determined.cli.store_access import opened_store


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
    from determined.queue.files import QueueFiles
    from determined.queue.notes import daemon_notes
    from determined.queue.status import read_status
    from determined.store.open import checked_place
    from determined.store.process import this_user

    with opened_store() as store:
        entries = store.queue.entries(socket.gethostname(), this_user())
        others = other_queues_text(store)
        experiments = {entry.experiment_id: store.experiments.get(entry.experiment_id) for entry in entries}
    # Read from the daemon's file, since slots are not in the store.
    status = read_status(QueueFiles.of(checked_place()))
    running = {} if status is None else status.running
    rows = [
        Queued(position, entry, experiments[entry.experiment_id], running.get(entry.experiment_id, []))
        for position, entry in enumerate(entries, start=1)
    ]
    show_list(form, FIELDS, rows, lambda: [queued_plain(row) for row in rows], columns)
    for note in [*daemon_notes(status, waiting=bool(rows)), *([others] if others else [])]:
        click.echo(note, err=form != "table")
