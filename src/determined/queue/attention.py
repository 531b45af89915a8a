"""Does anybody run this experiment, or will? As far as it can be known from here."""

from __future__ import annotations

import socket

from determined.experiment.files import ExperimentFiles
from determined.queue.files import QueueFiles
from determined.queue.status import read_status
from determined.store.base import Store
from determined.store.experiment_records import Experiment
from determined.store.process import is_running, on_this_machine, this_user


def is_attended(store: Store, store_place: str, experiment: Experiment) -> bool:
    """Of processes of other machines and users their last word is believed."""
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
    if experiment.holder is None:
        return False
    process = experiment.holder.process
    return is_running(process) or not on_this_machine(process)


def how_to_go_on(store: Store, experiment_id: int) -> str:
    """For an experiment that nobody attends to."""
    if store.queue.find(experiment_id) is not None:
        return f"experiment {experiment_id} waits in the queue, and no process serves it; resume with: det queue resume"
    return f"no process is running experiment {experiment_id}; resume with: det experiment activate {experiment_id}"


def last_words(experiment: Experiment, lines: int = 5) -> str:
    """The end of what the last runner in the background said; empty if there was none."""
    try:
        text = ExperimentFiles.for_key(experiment.key).runner_log.read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.strip().splitlines()[-lines:])
