"""Which actions experiments and trials allow now: for the page, for completion, and for the functions that refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from determined.config.stored import StoredConfig
from determined.store.experiment_records import Experiment, Trial
from determined.store.process import has_runner
from determined.store.standalone_runs import is_finished_or_interrupted
from determined.store.states import EXPERIMENT_ENDED, EXPERIMENT_RUNNING, TRIAL_ENDED

ExperimentAction = Literal[
    "pause", "activate", "cancel", "kill", "continue", "extend", "fork", "archive", "unarchive", "delete"
]


def why_not(action: ExperimentAction, experiment: Experiment) -> str | None:
    """Return why an action cannot be requested now, as a clause that begins with "it"; None if it can."""
    return _REASONS[action](experiment)


def why_not_kill(trial: Trial) -> str | None:
    """Return why a trial cannot be killed, as a clause that begins with "it"; None if it can.

    A trial of a paused search can be: it ends when the search is activated.
    """
    return f"it has already ended ({trial.state})" if trial.state in TRIAL_ENDED else None


def _ended(experiment: Experiment) -> str | None:
    return f"it has already ended ({experiment.state})" if experiment.state in EXPERIMENT_ENDED else None


def _standalone(experiment: Experiment) -> str | None:
    return f"it is a standalone run: start {experiment.program} again" if experiment.is_standalone else None


def _pause(experiment: Experiment) -> str | None:
    return _ended(experiment) or ("it is paused already" if experiment.state == "PAUSED" else None)


def _activate(experiment: Experiment) -> str | None:
    if experiment.is_standalone:
        return _standalone(experiment)
    if ended := _ended(experiment):
        return f"{ended}: continue or fork it"
    return "it is running" if experiment.state != "PAUSED" and has_runner(experiment) else None


def _continue(experiment: Experiment) -> str | None:
    return _standalone(experiment) or ("it is running: pause it first" if _is_running(experiment) else None)


def _extend(experiment: Experiment) -> str | None:
    if not experiment.is_standalone and StoredConfig(experiment.config).searcher.max_trials is None:
        return "its search has no number of trials"
    return _continue(experiment)


def _archive(experiment: Experiment) -> str | None:
    if experiment.archived:
        return "it is archived"
    return None if is_finished_or_interrupted(experiment) else "it has not ended"


def _unarchive(experiment: Experiment) -> str | None:
    return None if experiment.archived else "it is not archived"


def _delete(experiment: Experiment) -> str | None:
    return None if is_finished_or_interrupted(experiment) else "it has not ended: cancel or kill it first"


def _is_running(experiment: Experiment) -> bool:
    """Return whether a process runs the experiment. Its lease alone does not tell: it is released after the end."""
    return experiment.state in (*EXPERIMENT_RUNNING, "PAUSED") and has_runner(experiment)


_REASONS: dict[ExperimentAction, Callable[[Experiment], str | None]] = {
    "pause": _pause,
    "activate": _activate,
    "cancel": _ended,
    "kill": _ended,
    "continue": _continue,
    "extend": _extend,
    "fork": _standalone,
    "archive": _archive,
    "unarchive": _unarchive,
    "delete": _delete,
}
