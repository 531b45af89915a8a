"""Liveness of experiments: whether a process is running an experiment, or the queue will, and how to resume it."""

from __future__ import annotations

import socket

from determined.experiment.files import ExperimentFiles
from determined.queue.files import QueueFiles
from determined.queue.status import read_status
from determined.store.experiment_records import Experiment, Holder
from determined.store.process import is_running, on_this_machine, this_user
from determined.store.store import Store


def is_running_or_queued(store: Store, store_place: str, experiment: Experiment) -> bool:
    """Return whether a process is running an experiment or the queue will run it.

    Processes on other hosts and queues of other users cannot be checked, so the stored state is trusted.
    """
    # A standalone run has no runner; its own processes record their state.
    if experiment.by_hand or has_runner(experiment):
        return True
    entry = store.queue.find(experiment.id)
    if entry is None:
        return False
    ours = (entry.host, entry.owner) == (socket.gethostname(), this_user())
    if not ours:
        return True
    status = read_status(QueueFiles.of(store_place))
    return status is not None and not status.leaving


def is_holder_alive(holder: Holder, before: Holder | None) -> bool:
    """Return whether the holder of a lease is alive; `before` is the holder at an earlier time.

    A process on another host cannot be checked: it counts as alive if it has acquired or renewed the lease since then.
    """
    return is_running(holder.process) or (not on_this_machine(holder.process) and holder != before)


def has_runner(experiment: Experiment) -> bool:
    """Return whether the experiment's lease is held by a live process, or by one on another host."""
    if experiment.holder is None:
        return False
    process = experiment.holder.process
    return is_running(process) or not on_this_machine(process)


def resume_hint(store: Store, experiment_id: int) -> str:
    """Return the message for an experiment that no process is running, with the command that resumes it."""
    if store.queue.find(experiment_id) is not None:
        return (
            f"experiment {experiment_id} is in the queue, but no daemon serves the queue; resume with: det queue resume"
        )
    return f"no process is running experiment {experiment_id}; resume with: det experiment activate {experiment_id}"


def last_runner_output(experiment: Experiment, lines: int = 5) -> str:
    """Return the last lines of the log of an experiment's background runner; empty if there is none."""
    try:
        text = ExperimentFiles.for_key(experiment.key).runner_log.read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.strip().splitlines()[-lines:])
