"""Pause, cancel or kill an experiment, whether or not a runner is running it."""

from __future__ import annotations

import time

from determined.errors import ExperimentHeld, InvalidExperimentException
from determined.experiment.possible_actions import why_not, why_not_kill
from determined.stop_request import StopRequest
from determined.store.experiment_changes import Change, ExperimentChange, TrialChange
from determined.store.experiment_records import Experiment, Lease, Trial
from determined.store.process import is_abandoned, this_process
from determined.store.states import WITH_PROCESSES
from determined.store.store import Store

_NOT_RUNNING = "Experiment {} was not running; it is now {}."
_DOING: dict[StopRequest, str] = {"pause": "Pausing", "cancel": "Canceling", "kill": "Killing"}


def request(store: Store, experiment_id: int, kind: StopRequest) -> str:
    """Pause, cancel or kill an experiment, and return a sentence about what was done.

    `kind` is one of `OF_USERS`. A live runner carries it out within a second; an experiment without a runner is
    changed here.
    """
    experiment = store.experiments.get(experiment_id)
    _refuse_ended(experiment)
    if kind == "pause" and experiment.state == "PAUSED":
        return f"Experiment {experiment_id} is already paused."
    if experiment.is_standalone:
        return _request_standalone(store, experiment_id, kind)
    try:
        lease = store.experiments.acquire(experiment_id, this_process())
    # An experiment without a runner is changed under its lease, so that no runner can start meanwhile.
    except ExperimentHeld:
        # A live runner must do it, since only it can let the trials save.
        store.experiments.request(experiment_id, kind)
        return f"{_DOING[kind]} experiment {experiment_id}."
    try:
        _refuse_ended(store.experiments.get(experiment_id))  # its runner may have ended it in the meantime
        _carry_out(store, lease, kind)
        store.queue.remove(experiment_id)  # while the lease is held, so that the queue cannot start it in between
    finally:
        store.experiments.release(lease)
    return _NOT_RUNNING.format(experiment_id, "paused" if kind == "pause" else "canceled")


def kill_trial(store: Store, trial_id: int) -> str:
    """Kill a trial, and return a sentence about what was done. The search continues without it."""
    trial = store.experiments.trial(trial_id)
    if (reason := why_not_kill(trial)) is not None:
        raise InvalidExperimentException(reason)
    return kill_live_trial(store, trial)


def kill_live_trial(store: Store, trial: Trial) -> str:
    """Kill a trial that has not ended, and return a sentence about what was done."""
    experiment = store.experiments.get(trial.experiment_id)
    # A paused trial has no processes that could read a request.
    if trial.state == "PAUSED" and store.experiments.cancel_paused(experiment.id, trial.id):
        return f"Trial {trial.id} was not running; it is now canceled."
    # A standalone trial has no runner: its own process reads the request.
    if experiment.is_standalone:
        store.add_request(trial.id, "kill")
        return f"Killing trial {trial.id}."
    store.experiments.request(experiment.id, "kill", trial.id)
    if experiment.state == "PAUSED" or is_abandoned(experiment):
        return (
            f"Trial {trial.id}: no process is running experiment {experiment.id}; "
            "the trial ends when the experiment is activated"
        )
    return f"Killing trial {trial.id}; the runner of experiment {experiment.id} does it within a second."


def _request_standalone(store: Store, experiment_id: int, kind: StopRequest) -> str:
    """Ask the processes of a standalone run; trials that were interrupted have none, and are canceled here."""
    if kind != "pause":
        store.experiments.cancel_paused(experiment_id)
    running = [trial for trial in store.experiments.trials(experiment_id) if trial.state == "RUNNING"]
    for trial in running:
        store.add_request(trial.id, kind)
    return f"{_DOING[kind]} experiment {experiment_id}." if running else _NOT_RUNNING.format(experiment_id, "canceled")


def _refuse_ended(experiment: Experiment) -> None:
    """Raise InvalidExperimentException if an experiment has ended."""
    if (reason := why_not("cancel", experiment)) is not None:
        raise InvalidExperimentException(reason)


def _carry_out(store: Store, lease: Lease, kind: StopRequest) -> None:
    """Write the requested state of an experiment that has no runner, and of its trials."""
    # Rows of ended trials stay as they are.
    live = [t for t in store.experiments.trials(lease.experiment_id) if t.ended is None]
    now = time.time()
    if kind == "pause":
        trials = tuple(TrialChange(trial.id, state="PAUSED") for trial in live)
        change = ExperimentChange(state="PAUSED")
    else:
        trials = tuple(TrialChange(trial.id, state="CANCELED", ended=now) for trial in live)
        change = ExperimentChange(state="CANCELED", ended=now)
    # Processes that a suspended runner has left behind read these requests.
    requests = tuple((trial.id, kind) for trial in live if trial.state in WITH_PROCESSES)
    store.experiments.commit(lease, Change(trials=trials, experiment=change, requests=requests))
