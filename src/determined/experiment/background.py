"""Run an experiment in a process of its own that outlives whoever asked for it."""

from __future__ import annotations

import os
import subprocess
import sys

from determined.errors import ExperimentHeld, InvalidExperimentException
from determined.experiment.files import ExperimentFiles
from determined.store.base import Store
from determined.store.experiment_records import Change, Experiment, ExperimentChange
from determined.store.process import is_running, on_this_machine, this_process

_ENDED = ("COMPLETED", "CANCELED", "ERROR")
_SHORT_WATCH = 3.0  # a living runner shows itself about once a second

# The runner's parent ends at once, so that the system takes care of the runner and nobody must wait for it.
_LEAVE_ALONE = "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True)"
# As `det` does, but not with the modules of the directory that it happens to be started in.
_DET = "import sys; sys.path[:] = filter(None, sys.path); from determined.cli.main import main; main()"


def start_runner(experiment: Experiment, store_place: str) -> None:
    """`det experiment activate`, in a session of its own; what it says is added to a log in the experiment's files."""
    files = ExperimentFiles.for_key(experiment.key)
    runner = [sys.executable, "-c", _DET, "experiment", "activate", str(experiment.id)]
    descriptor = os.open(files.runner_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with open(descriptor, "ab") as log:
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", _LEAVE_ALONE, *runner],
            env={**os.environ, "DET_STORE": store_place},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=True,
        )


def activate(store: Store, store_place: str, experiment_id: int) -> None:
    """Let a runner go on with an experiment that was paused or interrupted; one that is at work stays with its runner.

    When this returns, the experiment is ACTIVE.
    """
    experiment = store.experiments.get(experiment_id)
    if experiment.by_hand:
        raise InvalidExperimentException(
            f"experiment {experiment.id} is a run of {experiment.program} that somebody started by hand: start it again"
        )
    if experiment.state in _ENDED:
        raise InvalidExperimentException(f"experiment {experiment_id} has ended: it is {experiment.state}")
    try:
        lease = store.experiments.acquire(experiment_id, this_process(), watch_seconds=_SHORT_WATCH)
    except ExperimentHeld:
        store.experiments.request(experiment_id, "activate")  # takes a pause back that was not carried out yet
        return
    try:
        store.experiments.commit(lease, Change(experiment=ExperimentChange(state="ACTIVE")))
    finally:
        store.experiments.release(lease)
    start_runner(experiment, store_place)


def is_being_run(experiment: Experiment) -> bool:
    """As far as it can be known from here: of processes of other machines their last word is believed."""
    if experiment.holder is None:
        return False
    process = experiment.holder.process
    return is_running(process) or not on_this_machine(process)


def last_words(experiment: Experiment) -> str:
    """The end of what the last runner in the background said; empty if there was none."""
    try:
        text = ExperimentFiles.for_key(experiment.key).runner_log.read_text(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-5:])
