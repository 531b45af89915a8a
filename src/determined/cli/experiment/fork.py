"""The command `det experiment fork`."""

from __future__ import annotations

from pathlib import Path

import click

from determined.cli.command import Command
from determined.cli.display.safe_text import visible
from determined.cli.experiment.new.overrides import with_config_file, with_overrides
from determined.cli.experiment.new.start import Code, StartOptions, start_experiment, with_start_options
from determined.cli.selection.arguments import ID, complete_experiments
from determined.cli.store_access import opened_store


@click.command(cls=Command, action="fork {experiment_id:experiment}")
@click.argument("experiment_id", metavar="ID", type=ID, shell_complete=complete_experiments)
@with_config_file
@with_overrides
@click.option("--name", help="Name of the new experiment.")
@click.option("--from-checkpoint", "source", metavar="best|latest|UUID", help="Start from the weights of a checkpoint.")
@with_start_options
def fork(
    experiment_id: int,
    config_file: Path | None,
    overrides: tuple[str, ...],
    name: str | None,
    source: str | None,
    options: StartOptions,
) -> None:
    """Create an experiment from another one, with changes.

    The new experiment uses a copy of the parent's code, and its configuration with the changes merged in. If the
    searcher changes, settings it also supports are kept. The new experiment runs as with `create`.

    \b
    Example: det experiment fork 3 --config hyperparameters.lr=0.01 --from-checkpoint best
    """
    from determined.config.reading.load import load_yaml
    from determined.config.reading.overrides import apply_overrides
    from determined.experiment.creation.forking import plan_fork

    changes = [{} if config_file is None else load_yaml(config_file), apply_overrides({}, overrides)[0]]
    with opened_store() as store:
        planned = plan_fork(store, experiment_id, changes, name=name, from_checkpoint=source)
    if planned.note is not None:
        click.echo(visible(planned.note), err=True)
    code = Code(planned.directory, fork_of=planned.parent, in_place=planned.in_place)
    start_experiment(planned.loaded, code, options)
