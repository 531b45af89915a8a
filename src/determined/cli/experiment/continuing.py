"""The command `det experiment continue`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from determined.cli.command import Command
from determined.cli.display.output import Form, with_json
from determined.cli.display.safe_text import visible
from determined.cli.display.times import with_utc
from determined.cli.experiment.new.overrides import with_config_file, with_overrides
from determined.cli.running.run_or_queue import Sharing, enqueue, run_here, with_sharing
from determined.cli.selection.arguments import ID, complete_experiments_that
from determined.cli.store_access import opened_store
from determined.sentences import first_few

if TYPE_CHECKING:
    from determined.experiment.creation.continuation import Continued


@click.command("continue", cls=Command, action="continue {experiment_id:experiment}")
@click.argument("experiment_id", metavar="ID", type=ID, shell_complete=complete_experiments_that("can be continued"))
@with_config_file
@with_overrides
@click.option("--slots", type=click.IntRange(min=1), help="Number of slots to use (default: all).")
@click.option(
    "-f", "--follow", "--follow-first-trial", "follow", is_flag=True, help="Also show the log of the first trial."
)
@click.option("--detach", is_flag=True, help="Queue it; it runs in the background when slots are free.")
@with_sharing
@with_utc
@with_json
def continue_(
    experiment_id: int,
    config_file: Path | None,
    overrides: tuple[str, ...],
    slots: int | None,
    follow: bool,
    detach: bool,
    sharing: Sharing,
    form: Form,
) -> None:
    """Continue an experiment, even an ended one.

    The trial of a single experiment resumes from its newest checkpoint, whatever its state. In a random or grid search,
    failed trials start again, and a longer searcher.max_length resumes all trials. A larger searcher.max_trials extends
    any search. Settings that can no longer change are rejected, and named.

    \b
    Example: det experiment continue 3 --config searcher.max_length.epochs=20
    """
    if follow and detach:
        raise click.UsageError(f"--follow and --detach exclude each other: det experiment logs {experiment_id} -f")
    changes = _changes(config_file, overrides)
    with opened_store() as store:
        from determined.experiment.creation.continuation import reopen_if_needed

        continued = reopen_if_needed(store, experiment_id, changes)
        max_trials = None if continued is None else continued.max_trials
        if continued is not None:
            _print_changes(continued)
        if detach:
            enqueue(store, experiment_id, form, slots=slots, max_trials=max_trials)
            return
    sys.exit(
        run_here(
            experiment_id, new=False, slots=slots, follow=follow, form=form, max_trials=max_trials, sharing=sharing
        )
    )


def _changes(config_file: Path | None, overrides: tuple[str, ...]) -> dict[str, Any]:
    """Return the changes to the configuration, merged from the file and the options."""
    if config_file is None and not overrides:
        return {}
    from determined.config.reading.load import load_yaml
    from determined.config.reading.overrides import apply_overrides

    return apply_overrides({} if config_file is None else load_yaml(config_file), overrides)[0]


def _print_changes(continued: Continued) -> None:
    """Print the changed settings and the trials that continue."""
    if continued.changed:
        click.echo(visible(f"Changed: {first_few(continued.changed)}"), err=True)
    if continued.trials:
        click.echo(f"Continuing trial {first_few(list(map(str, continued.trials)))}", err=True)
