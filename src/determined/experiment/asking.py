"""Ask a trial's processes to end: through the store, or by force."""

from __future__ import annotations

import time

from determined.experiment.running import Running
from determined.experiment.trials import Ask, LiveTrial, Process
from determined.store.experiment_records import TrialChange


def ask_to_end(run: Running, trial: LiveTrial, ask: Ask) -> None:
    """Once for each wish; a trial without processes has nobody to ask."""
    process = trial.process
    if process is None or process.asked in (ask, "kill"):
        return
    process.asked, process.asked_at = ask, time.monotonic()
    trial.state = "STOPPING"
    run.commit(trials=(TrialChange(trial.id, state="STOPPING"),), requests=((trial.id, ask),))
    if ask == "kill":
        run.engine.kill(process.key)
    elif _listens(run, trial, process):
        run.engine.ring(process.key)
    else:
        process.interrupted = True
        run.engine.interrupt(process.key)


def halt(run: Running, trial: LiveTrial) -> None:
    """End a trial's processes without saving; it resumes from its last checkpoint, as after a kill of the runner."""
    if trial.process is not None:
        trial.process.halted = True
        run.engine.kill(trial.process.key)


def _listens(run: Running, trial: LiveTrial, process: Process) -> bool:
    """A program that knows nothing of us, or is not as far yet, is told to end by what it does know: a signal."""
    if run.engine.listens(process.key):
        return True
    return len(run.writer.ask(lambda store: store.attempts(trial.id))) > process.attempts_before
