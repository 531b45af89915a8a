"""The command `det trial kill`."""

from __future__ import annotations

import click

from determined.cli.display.json_rows import trial_plain
from determined.cli.display.output import Form, print_json, with_json
from determined.cli.selection.arguments import complete_running_trials
from determined.cli.selection.bulk import BulkCommand
from determined.cli.store_access import opened_store
from determined.errors import DeterminedError
from determined.store.process import is_abandoned
from determined.store.states import TRIAL_ENDED


@click.command(cls=BulkCommand, kind="trial", complete=complete_running_trials, action="kill {trial_id:trial}")
@with_json
def kill(trial_id: int, form: Form) -> None:
    """Kill a trial.

    Its processes end at once, and its state is CANCELED; work since its last checkpoint is lost. The search continues
    without it.

    \b
    Example: det trial kill 7
    """
    with opened_store() as store:
        trial = store.experiments.trial(trial_id)
        experiment = store.experiments.get(trial.experiment_id)
        if trial.state in TRIAL_ENDED:
            raise DeterminedError(f"trial {trial_id} has already ended ({trial.state})")
        # A paused trial has no processes that could read a request.
        paused = trial.state == "PAUSED" and store.experiments.cancel_paused(experiment.id, trial_id)
        if paused:
            trial = store.experiments.trial(trial_id)
        elif experiment.is_standalone:
            store.add_request(trial_id, "kill")
        else:
            store.experiments.request(experiment.id, "kill", trial_id)
    if form == "json":
        print_json(trial_plain(trial))
    elif paused:
        click.echo(f"Trial {trial_id} was not running; it is now canceled.")
    elif experiment.is_standalone:
        click.echo(f"Killing trial {trial_id}.")
    elif experiment.state == "PAUSED" or is_abandoned(experiment):
        click.echo(
            f"Trial {trial_id}: no process is running experiment {experiment.id}; "
            "the trial ends when the experiment is activated"
        )
    else:
        click.echo(f"Killing trial {trial_id}; the runner of experiment {experiment.id} does it within a second.")
