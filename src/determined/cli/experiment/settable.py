"""What of a configuration can be changed once the experiment exists: a runner reads it from the experiment's files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from determined.errors import InvalidExperimentException

if TYPE_CHECKING:
    from determined.store.base import Store
    from determined.store.experiment_records import Experiment

GC_POLICY = ("save_experiment_best", "save_trial_best", "save_trial_latest")
_SETTABLE = {"checkpoint_storage": GC_POLICY, "resources": ("max_slots",)}
_SHORT_WATCH = 3.0  # a living runner shows itself about once a second


def present_config(row: Experiment) -> dict[str, Any]:
    """The configuration as it was created, with what was changed since."""
    from determined.experiment.files import ExperimentFiles, experiment_dir

    directory = None if row.by_hand else experiment_dir(row.key)
    if directory is None or not (directory / "config.json").is_file():  # the files are on another machine
        return row.config
    own = ExperimentFiles(directory).read_config()
    config = dict(row.config)
    for block, names in _SETTABLE.items():
        changed = {name: value for name, value in (own.get(block) or {}).items() if name in names}
        if changed:
            config[block] = {**(config.get(block) or {}), **changed}
    return config


def change_config(store: Store, row: Experiment, block: str, values: Mapping[str, int]) -> None:
    """For its next runner; one that works now has read its configuration already, and is an `ExperimentHeld`."""
    from determined.config.experiment import load_experiment
    from determined.experiment.files import ExperimentFiles, experiment_dir
    from determined.store.process import this_process

    directory = None if row.by_hand else experiment_dir(row.key)
    if directory is None:
        raise InvalidExperimentException(
            f"experiment {row.id} is a run that somebody started by hand: it has no configuration to change"
        )
    lease = store.experiments.acquire(row.id, this_process(), watch_seconds=_SHORT_WATCH)
    try:
        files = ExperimentFiles(directory)
        config = files.read_config()
        config[block] = {**(config.get(block) or {}), **values}
        load_experiment(config)  # refuses what does not fit the rest
        files.write_config(config)
    finally:
        store.experiments.release(lease)
