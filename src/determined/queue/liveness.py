"""Liveness of experiments: whether a process is running an experiment, or the queue will."""

from __future__ import annotations

import socket

from determined.experiment.files import ExperimentFiles
from determined.queue.files import QueueFiles
from determined.queue.status import read_status
from determined.store.experiment_records import Experiment
from determined.store.process import is_running, on_this_machine, this_user
from determined.store.store import Store


def is_attended(store: Store, store_place: str, experiment: Experiment) -> bool:
    """Return whether a process is running an experiment or the queue will run it.

    Processes on other hosts or of other users cannot be checked, so the stored state is trusted.
    """
    if experiment.by_hand or is_being_run(experiment):
        return True
    entry = store.queue.find(experiment.id)
    if entry is None:
        return False
    ours = (entry.host, entry.owner) == (socket.gethostname(), this_user())
    if not ours:
        return True
    status = read_status(QueueFiles.of(store_place))
    return status is not None and not status.leaving


def is_being_run(experiment: Experiment) -> bool:
    """Return whether the experiment's lease is held by a live process, or by one on another host."""
    if experiment.holder is None:
        return False
    process = experiment.holder.process
    return is_running(process) or not on_this_machine(process)


def how_to_go_on(store: Store, experiment_id: int) -> str:
    """Return a message that tells how to resume an experiment that no process is running."""
    if store.queue.find(experiment_id) is not None:
        return f"experiment {experiment_id} waits in the queue, and no process serves it; resume with: det queue resume"
    return f"no process is running experiment {experiment_id}; resume with: det experiment activate {experiment_id}"


def last_words(experiment: Experiment, lines: int = 5) -> str:
    """Return the last lines of the log of an experiment's background runner; empty if there is none."""
    try:
        text = ExperimentFiles.for_key(experiment.key).runner_log.read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.strip().splitlines()[-lines:])
