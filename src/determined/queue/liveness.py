"""Liveness of experiments: whether a process is running an experiment, or the queue will, and how to resume it."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from determined.experiment.files import ExperimentFiles
from determined.queue.files import QueueFiles
from determined.queue.status import read_status
from determined.store.experiment_records import Experiment, Holder
from determined.store.open import checked_place
from determined.store.process import has_runner, is_abandoned, is_running, on_this_machine, this_user
from determined.store.states import EXPERIMENT_RUNNING
from determined.store.store import Store


def is_running_or_queued(store: Store, store_place: str, experiment: Experiment) -> bool:
    """Return whether a process is running an experiment or the queue will run it.

    Processes on other hosts and queues of other users cannot be checked, so the stored state is trusted.
    """
    # A standalone run has no runner; its own processes record their state.
    if experiment.is_standalone or has_runner(experiment):
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


def resume_hint(store: Store, experiment_id: int) -> str:
    """Return the message for an experiment that no process is running, with the command that resumes it."""
    if store.queue.find(experiment_id) is not None:
        return (
            f"experiment {experiment_id} is in the queue, but no daemon serves the queue; resume with: det queue resume"
        )
    return interrupted_message(experiment_id)


def resume_hints(store: Store, experiments: Iterable[Experiment]) -> list[str]:
    """Return one line of advice for each experiment that no process runs and that no queue will start."""
    abandoned = [experiment for experiment in experiments if is_abandoned(experiment)]
    if not abandoned:
        return []
    place = checked_place()
    return [
        resume_hint(store, experiment.id)
        for experiment in abandoned
        if not is_running_or_queued(store, place, experiment)
    ]


def is_in_progress(store: Store, experiment: Experiment) -> bool:
    """Return whether the trials of an experiment run, or will run without further commands."""
    return experiment.state in EXPERIMENT_RUNNING and not resume_hints(store, [experiment])


def interrupted_message(experiment_id: int) -> str:
    """Return the message for an experiment that no process runs and that is not in the queue."""
    return f"no process is running experiment {experiment_id}; resume with: det experiment activate {experiment_id}"


def last_runner_output(experiment: Experiment, lines: int = 5) -> str:
    """Return the last lines of the log of an experiment's background runner; empty if there is none."""
    try:
        text = ExperimentFiles.for_key(experiment.key).runner_log.read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.strip().splitlines()[-lines:])
