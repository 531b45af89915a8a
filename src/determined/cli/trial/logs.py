"""The command `det trial logs`."""

from __future__ import annotations

import click

from determined.cli.command import Command, ctrl_c_ends_watching
from determined.cli.display.output import Form, with_json
from determined.cli.logs import LogChoice, no_lines_text, print_log, with_log_choice
from determined.cli.selection.arguments import ID, complete_trials
from determined.cli.store_access import opened_store


@click.command(cls=Command, action="show the logs of {trial_id:trial}")
@click.argument("trial_id", metavar="ID", type=ID, shell_complete=complete_trials)
@with_log_choice
@with_json
def logs(trial_id: int, choice: LogChoice, form: Form) -> None:
    """Show the log of a trial.

    Times are RFC 3339, in your time zone if they name none. --json prints one object per line. --level hides lines
    without a log level.

    \b
    Example: det trial logs 7 --level WARNING --timestamp-after 2026-01-31T12:00:00Z
    """
    with ctrl_c_ends_watching(f"trial {trial_id}"), opened_store() as store:
        experiment_id = store.experiments.trial(trial_id).experiment_id

        def may_grow() -> bool:
            from determined.queue.liveness import is_in_progress

            ended = store.experiments.trial(trial_id).ended is not None
            return not ended and is_in_progress(store, store.experiments.get(experiment_id))

        printed = print_log(store, lambda: [trial_id], choice, may_grow=may_grow, name_trials=False, form=form)
        if not printed:
            trial = store.experiments.trial(trial_id)
            click.echo(no_lines_text(store, store.experiments.get(experiment_id), [trial]), err=True)
    if printed and form != "json":
        click.echo(f"To see it again: det trial logs {trial_id}", err=True)
