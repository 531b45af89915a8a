"""Ask the processes of a trial to stop, through the store, by a signal, or by killing them."""

from __future__ import annotations

import time

from determined.experiment.runner.shared_state import RunnerState
from determined.experiment.runner.trials.live_trial import LiveTrial, Process
from determined.stop_request import StopRequest
from determined.store.experiment_changes import TrialChange


def ask_to_end(run: RunnerState, trial: LiveTrial, ask: StopRequest) -> None:
    """Request that a trial's processes stop; do nothing if there are none or the same request was made before.

    The request is committed to the store before the processes are notified, so that they find it there.
    """
    process = trial.process
    if process is None or process.asked in (ask, "kill"):
        return
    process.asked, process.asked_at = ask, time.monotonic()
    trial.state = "STOPPING"
    run.commit(trials=(TrialChange(trial.id, state="STOPPING"),), requests=((trial.id, ask),))
    if ask == "kill":
        run.engine.kill(process.key)
    elif _listens(run, trial, process):
        run.engine.wake(process.key)
    else:
        process.interrupted = True
        run.engine.interrupt(process.key)


def halt(run: RunnerState, trial: LiveTrial) -> None:
    """Kill a trial's processes without saving.

    The trial resumes from its last checkpoint, as after a kill of the runner.
    """
    if trial.process is not None:
        trial.process.halted = True
        run.engine.kill(trial.process.key)


def _listens(run: RunnerState, trial: LiveTrial, process: Process) -> bool:
    """Return whether a trial's processes read requests from the store.

    A program that does not use this library, or has not started to report yet, gets SIGINT instead.
    """
    if run.engine.listens(process.key):
        return True
    return len(run.writer.ask(lambda store: store.attempts(trial.id))) > process.attempts_before
