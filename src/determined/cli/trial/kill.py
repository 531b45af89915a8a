"""The command `det trial kill`."""

from __future__ import annotations

import click

from determined.cli.display.json_rows import trial_plain
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.selection.arguments import complete_running_trials
from determined.cli.selection.bulk import BulkCommand
from determined.cli.store_access import opened_store


@click.command(cls=BulkCommand, kind="trial", complete=complete_running_trials, action="kill {trial_id:trial}")
@with_json
def kill(trial_id: int, form: Form) -> None:
    """Kill a trial.

    Its processes end at once, and its state is CANCELED; work since its last checkpoint is lost. The search continues
    without it.

    \b
    Example: det trial kill 7
    """
    from determined.experiment.control import kill_trial

    with opened_store() as store:
        done = kill_trial(store, trial_id)
        trial = store.experiments.trial(trial_id)
    if form == "json":
        print_json(trial_plain(trial))
    else:
        click.echo(done)
