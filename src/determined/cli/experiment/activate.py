"""`det experiment activate`."""

from __future__ import annotations

import sys

import click

from determined.cli.foreground import run_here
from determined.cli.groups import Command
from determined.cli.output import Form, with_json
from determined.cli.zone import with_utc


@click.command(cls=Command)
@click.argument("experiment_id", metavar="ID", type=int)
@click.option("--slots", type=click.IntRange(min=1), help="Use so many slots; without it all of this machine.")
@click.option("-f", "--follow", is_flag=True, help="Also show the log of the first trial that writes something.")
@click.option("--max-trials", type=click.IntRange(min=1), help="Extend the search, even an ended one.")
@with_utc
@with_json
def activate(experiment_id: int, slots: int | None, follow: bool, max_trials: int | None, form: Form) -> None:
    """Activate an experiment that was paused or interrupted.

    It runs here, in the foreground, and goes on where it was: every trial from its newest checkpoint, the search with
    the same decisions.

    \b
    Example: det experiment activate 3
    """
    sys.exit(run_here(experiment_id, new=False, slots=slots, follow=follow, form=form, max_trials=max_trials))
