"""The command `det experiment fork`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from determined.cli.command import Command
from determined.cli.display.safe_text import visible
from determined.cli.experiment.new.start import Code, StartOptions, start_experiment, with_start_options
from determined.cli.selection.arguments import ID, complete_experiments
from determined.cli.store_access import opened_store
from determined.errors import DeterminedError
from determined.store.ranking import best_checkpoints

if TYPE_CHECKING:
    from determined.experiment.files import ExperimentFiles
    from determined.store.experiment_records import Experiment
    from determined.store.store import Store


@click.command(cls=Command, action="fork {experiment_id:experiment}")
@click.argument("experiment_id", metavar="ID", type=ID, shell_complete=complete_experiments)
@click.option("--config-file", type=click.Path(path_type=Path), help="YAML file with changes to the configuration.")
@click.option(
    "--config",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Change a setting of the configuration (repeatable).",
)
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
    from determined.config.derive import derive
    from determined.config.experiment import load_experiment
    from determined.config.reading.load import load_yaml
    from determined.config.reading.overrides import apply_overrides
    from determined.config.stored import StoredConfig
    from determined.experiment.creation.current_config import present_config
    from determined.experiment.files import ExperimentFiles

    with opened_store() as store:
        row = store.experiments.get(experiment_id)
        files = ExperimentFiles(_directory(row))
        config = present_config(files, row, store.experiments.journal(experiment_id))
        start = StoredConfig(config).searcher.source_checkpoint_uuid  # set even if the user named a trial
        start = start if source is None else _checkpoint(store, row, source)
    # Later changes win: the parent's values first, the options of this command last.
    for changes in (
        {"name": row.name, "description": row.description or None, "labels": row.labels or None},  # the current ones
        # The checkpoint is named explicitly, so that the trial from which it came is not looked up again.
        {"searcher": {"source_checkpoint_uuid": start, "source_trial_id": None}},
        {} if config_file is None else load_yaml(config_file),
        apply_overrides({}, overrides)[0],
        {} if name is None else {"name": name},
    ):
        config = derive(config, changes)
    start_experiment(load_experiment(config), _code(row, files), options)


def _directory(row: Experiment) -> Path:
    """Return the directory with an experiment's code and configuration, secrets included; raise if there is none."""
    from determined.experiment.files import experiment_dir

    directory = None if row.is_standalone else experiment_dir(row.key)
    if directory is None or not directory.is_dir():
        why = "it is a standalone run" if row.is_standalone else "its files are not on this machine"
        raise DeterminedError(f"experiment {row.id} has no copy of its code and configuration: {why}")
    return directory


def _code(row: Experiment, files: ExperimentFiles) -> Code:
    """Return the parent's copy of the code, or the user's directory if the parent works in one."""
    place = files.place
    if place is None:
        return Code(files.code, fork_of=row)
    if not place.is_dir():
        raise DeterminedError(f"experiment {row.id} works in {place}, but that directory no longer exists")
    click.echo(
        visible(f"The new experiment works in {place}, like experiment {row.id}, with the code that is there now."),
        err=True,
    )
    return Code(place, fork_of=row, in_place=True)


def _checkpoint(store: Store, row: Experiment, wanted: str) -> str:
    """Return the id of the checkpoint named by `--from-checkpoint`; raise if it cannot be loaded."""
    if wanted not in ("best", "latest"):
        state = store.upkeep.checkpoint(wanted).state
        if state != "ACTIVE":
            raise DeterminedError(f"checkpoint {wanted} cannot be loaded: it is {state}")
        return wanted
    loadable = [checkpoint for checkpoint in store.experiments.checkpoints(row.id) if checkpoint.state == "ACTIVE"]
    found = best_checkpoints(loadable, row.metric, row.smaller_is_better) if wanted == "best" else loadable
    if not found:
        what = "with a number for its metric" if loadable else "that can be loaded"
        raise DeterminedError(f"experiment {row.id} has no checkpoint {what}")
    return found[0].checkpoint_id
