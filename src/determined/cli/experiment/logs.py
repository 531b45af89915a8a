"""The command `det experiment logs`."""

from __future__ import annotations

import click

from determined.cli.command import Command, ctrl_c_ends_watching
from determined.cli.display.output import Form, with_json
from determined.cli.logs import LogChoice, no_lines_text, print_log, with_log_choice
from determined.cli.selection.arguments import ID, complete_experiments
from determined.cli.store_access import opened_store
from determined.errors import DeterminedError
from determined.sentences import first_few


@click.command(cls=Command, action="show the logs of {experiment_id:experiment}")
@click.argument("experiment_id", metavar="ID", type=ID, shell_complete=complete_experiments)
@click.option("--trial", "trial_id", type=int, metavar="TRIAL_ID", help="Trial to show (default: the first).")
@click.option("--all", "everything", is_flag=True, help="Show all trials, in chronological order.")
@with_log_choice
@with_json
def logs(experiment_id: int, trial_id: int | None, everything: bool, choice: LogChoice, form: Form) -> None:
    """Show the logs of the trials of an experiment.

    With --all, every line names its trial, and -f also follows trials that start later, until the experiment ends.
    Times are RFC 3339, in your time zone if they name none. --json prints one object per line. --level hides lines
    without a log level.

    \b
    Example: det experiment logs 3 --all --follow
    """
    if trial_id is not None and everything:
        raise click.UsageError("--trial excludes --all")
    with ctrl_c_ends_watching(f"experiment {experiment_id}"), opened_store() as store:

        def trials() -> list[int]:
            # Called at every poll, because a search starts trials while its log is followed.
            known = [trial.id for trial in store.experiments.trials(experiment_id)]
            if trial_id is None:
                return known if everything else known[:1]
            if trial_id not in known:
                raise DeterminedError(
                    f"trial {trial_id} is not one of its trials: {first_few(list(map(str, known))) or 'none yet'}"
                )
            return [trial_id]

        def may_grow() -> bool:
            from determined.queue.liveness import is_in_progress

            return is_in_progress(store, store.experiments.get(experiment_id))

        if not print_log(store, trials, choice, may_grow=may_grow, name_trials=everything, form=form):
            shown = [store.experiments.trial(trial) for trial in trials()]
            click.echo(no_lines_text(store, store.experiments.get(experiment_id), shown), err=True)
