"""The command `det queue resume`."""

from __future__ import annotations

import click

from determined.cli.display.output import Form, print_json, with_json
from determined.cli.groups import Command
from determined.cli.opened import opened_store
from determined.cli.queue.elsewhere import elsewhere
from determined.errors import DeterminedError
from determined.plural import counted


@click.command(cls=Command, action="resume the queue")
@with_json
def resume(form: Form) -> None:
    """Resume the experiments in the queue.

    Use it after a reboot, or after the queue process was killed. If that process is running, nothing is done.

    \b
    Example: det queue resume
    """
    from determined.queue.daemon import IS_LEAVING
    from determined.queue.submission import resume as go_on
    from determined.store.open import checked_place

    with opened_store() as store:
        others = elsewhere(store)
        entries, daemon = go_on(store, checked_place())
    started = daemon == "started"
    if daemon == "leaving":
        raise DeterminedError(IS_LEAVING)
    if form == "json":
        print_json({"experiments": [entry.experiment_id for entry in entries], "started": started})
    elif not entries:
        click.echo("The queue is empty: there is nothing to go on with.")
    else:
        what = counted(len(entries), "experiment")
        click.echo(f"The queue goes on with {what}." if started else f"The queue is being served: {what}.")
    if others:
        click.echo(others, err=form == "json")
