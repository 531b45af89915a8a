"""Why a log has no lines to show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from determined.store.states import EXPERIMENT_ENDED, TRIAL_ENDED

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment, Trial
    from determined.store.store import Store


def no_lines_text(store: Store, experiment: Experiment, trials: Sequence[Trial]) -> str:
    """Return one line about the log of these trials of an experiment, none of whose lines was printed."""
    if any(store.newest_log(trial.id) for trial in trials):
        return "No line matches the given options."
    if len(trials) != 1:
        return _of_experiment(store, experiment, trials)
    (trial,) = trials
    if trial.state not in TRIAL_ENDED and trial.started is None:
        return f"Trial {trial.id} has not started yet ({_waiting(store, experiment)})."
    if trial.started is None:
        return f"Trial {trial.id} ended before it started ({trial.state})."
    return _printed_nothing(f"Trial {trial.id}", experiment, has_ended=trial.state in TRIAL_ENDED)


def _of_experiment(store: Store, experiment: Experiment, trials: Sequence[Trial]) -> str:
    name = f"Experiment {experiment.id}"
    if any(trial.started is not None for trial in trials):
        return _printed_nothing(name, experiment, has_ended=experiment.state in EXPERIMENT_ENDED)
    if experiment.state in EXPERIMENT_ENDED:
        return f"{name} ended before a trial started ({experiment.state})."
    return f"No trial of experiment {experiment.id} has started yet ({_waiting(store, experiment)})."


def _printed_nothing(name: str, experiment: Experiment, *, has_ended: bool) -> str:
    if not experiment.by_hand:
        return f"{name} printed nothing." if has_ended else f"{name} has not printed anything yet. -f waits for output."
    so_far = "No output of" if has_ended else "No output yet of"
    return (
        f"{so_far} {name[0].lower()}{name[1:]} is stored: it printed nothing, or storing was disabled "
        "(store_output=False, DET_STORE_OUTPUT=0)."
    )


def _waiting(store: Store, experiment: Experiment) -> str:
    """Return why a trial of an experiment has not started."""
    if experiment.state == "PAUSED":
        return f"the experiment is PAUSED; resume with: det experiment activate {experiment.id}"
    if store.queue.find(experiment.id) is not None:
        return "the experiment is in the queue; see: det queue"
    return f"the experiment is {experiment.state}"
