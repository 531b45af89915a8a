"""Request that the processes of a trial stop: through the store, by a signal, or by killing them."""

from __future__ import annotations

from determined.experiment.runner.runner_state import RunnerState
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.trials.process import TrialProcess
from determined.stop_request import StopRequest


def request_stop(run: RunnerState, trial: LiveTrial, request: StopRequest) -> None:
    """Request that a trial's processes stop; do nothing if there are none or the same request was made before.

    The request is committed to the store before the processes are woken, so that they find it there.
    """
    process = trial.process
    # Nothing is stronger than a kill.
    if process is None or process.stopping.request in (request, "kill"):
        return
    # Also for a kill: the row must say why the processes ended.
    run.commit(trials=(trial.request_stop(request),), requests=((trial.id, request),))
    if request == "kill":
        run.engine.kill(process.key)
    elif _reads_requests(run, trial, process):
        run.engine.wake(process.key)
    else:
        process.note_interrupt()
        run.engine.interrupt(process.key)


def kill_without_saving(run: RunnerState, trial: LiveTrial) -> None:
    """Kill a trial's processes without waiting for a checkpoint.

    The trial resumes from its last checkpoint, as after a kill of the runner.
    """
    if trial.process is not None:
        trial.process.note_kill_without_saving()
        run.engine.kill(trial.process.key)


def _reads_requests(run: RunnerState, trial: LiveTrial, process: TrialProcess) -> bool:
    """Return whether a trial's processes read requests from the store.

    A program that does not use this library, or has not started to report yet, gets SIGINT instead.
    """
    if run.engine.has_listener(process.key):
        return True
    # A record of this start means that the library is in use, even if its socket is not there yet.
    return len(run.writer.query(lambda store: store.attempts(trial.id))) > process.attempts_before
