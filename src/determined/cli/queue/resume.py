"""The command `det queue resume`."""

from __future__ import annotations

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.queue.rows import other_queues_text
from determined.cli.store_access import opened_store
from determined.errors import DeterminedError
from determined.sentences import counted


@click.command(cls=Command, action="resume the queue")
@with_json
def resume(form: Form) -> None:
    """Resume the experiments in the queue.

    Use it after a reboot, or after the queue process was killed. If that process is running, nothing is done.

    \b
    Example: det queue resume
    """
    from determined.queue.daemon_start import SHUTTING_DOWN
    from determined.queue.submission import resume as resume_queue
    from determined.store.open import checked_place

    with opened_store() as store:
        others = other_queues_text(store)
        entries, daemon = resume_queue(store, checked_place())
    started = daemon == "started"
    if daemon == "shutting down":
        raise DeterminedError(SHUTTING_DOWN)
    if form == "json":
        print_json({"experiments": [entry.experiment_id for entry in entries], "started": started})
    elif not entries:
        click.echo("The queue is empty: there is nothing to resume.")
    else:
        what = counted(len(entries), "experiment")
        click.echo(f"Resumed the queue with {what}." if started else f"The queue is already being served: {what}.")
    if others:
        click.echo(others, err=form == "json")
