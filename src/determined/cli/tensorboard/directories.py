"""Find the TensorBoard directories of trials, and link all of them into one directory."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from determined.config.ranking import ranked
from determined.names import is_plain_directory

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment, Trial
    from determined.store.store import Store

MOST_TRIALS = 100


def chosen_trials(store: Store, experiment_ids: Sequence[int], trial_ids: Sequence[int]) -> list[Trial]:
    """Return the named trials, then those of the experiments, best first; each trial once."""
    found = [store.experiments.trial(trial_id) for trial_id in trial_ids]
    for experiment_id in experiment_ids:
        found += _best_first(store.experiments.get(experiment_id), store.experiments.trials(experiment_id))
    return list({trial.id: trial for trial in found}.values())


def directories_of(store: Store, trials: Sequence[Trial]) -> dict[str, Path]:
    """Return the directories on this machine, by the name that TensorBoard shows; only plain paths are used."""
    found: dict[str, Path] = {}
    for trial in trials:
        attempts = [one for one in store.attempts(trial.id) if one.process.host == socket.gethostname()]
        runs = [attempt.run_dir for attempt in attempts if is_plain_directory(attempt.run_dir)]
        paths = dict.fromkeys(Path(run) / "tensorboard" for run in runs)
        for number, path in enumerate((path for path in paths if path.is_dir()), start=1):
            name = f"experiment_{trial.experiment_id}/trial_{trial.id}"
            found[name if number == 1 else f"{name}_run_{number}"] = path
    return found


def link_all(root: Path, directories: Mapping[str, Path]) -> None:
    """Create a symbolic link for each directory: TensorBoard's list of paths cannot contain a comma or a colon."""
    for name, path in directories.items():
        link = root / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(path, target_is_directory=True)


def _best_first(experiment: Experiment, trials: list[Trial]) -> list[Trial]:
    return ranked(
        trials,
        lambda trial: trial.best,
        lambda trial: trial.id,
        smaller_is_better=experiment.smaller_is_better,
    )
