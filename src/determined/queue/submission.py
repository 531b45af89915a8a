"""Add experiments to the queue and make sure that a daemon serves it."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from determined.config.stored import StoredConfig
from determined.config.stored_model import stored_model
from determined.errors import ExperimentHeld, InvalidExperimentException
from determined.experiment.creation.continuation import Continued, reopen_if_needed
from determined.experiment.creation.masked_secrets import check_secrets
from determined.experiment.creation.run_again import check_can_run
from determined.experiment.files import ExperimentFiles, experiment_dir
from determined.experiment.runner.settings import check_slots, settings_of
from determined.queue.captured_environment import save_environment
from determined.queue.daemon_start import DaemonState, ensure_daemon
from determined.queue.files import QueueFiles
from determined.searchers.base import Extended
from determined.searchers.build import build
from determined.store.experiment_changes import Change, ExperimentChange
from determined.store.experiment_records import Experiment, Lease
from determined.store.process import this_process, this_user
from determined.store.states import EXPERIMENT_ENDED
from determined.store.store import Store
from determined.store.substores.queue import DEFAULT_PRIORITY, Entry, NewEntry

_SHORT_WATCH = 3.0  # a live runner sends a heartbeat about once a second
_SECONDS_TO_RELEASE_LEASE = 10.0  # a runner writes its last rows before it releases the lease
# A user waits for the answer; a runner gives it within a second.
_SECONDS_BETWEEN_POLLS = 0.1


def add(
    store: Store,
    store_place: str,
    experiment_id: int,
    *,
    priority: int | None = None,
    slots: int | None = None,
    max_trials: int | None = None,
) -> DaemonState:
    """Add an experiment to the queue of this machine and mark it as ACTIVE. Start the daemon if there is none.

    `priority` (1 is scheduled first) defaults to the one in the configuration; `slots` is the maximum number of slots;
    `max_trials` extends the search, even one that has ended. Raise if a process is running the experiment or it is
    already queued.
    """
    _check_can_run(store, store.experiments.get(experiment_id), slots, max_trials)
    lease = _acquire(store, experiment_id)
    try:
        _add(store, lease, priority, slots, max_trials)
    finally:
        store.experiments.release(lease)
    # After the lease was released, or the daemon could not start the experiment.
    return ensure_daemon(QueueFiles.of(store_place), store_place)


def activate(store: Store, store_place: str, experiment_id: int) -> DaemonState:
    """Let an experiment run: cancel the pause if a runner has it, otherwise add it to the queue."""
    _check_can_run(store, store.experiments.get(experiment_id), None, None)
    try:
        lease = _acquire(store, experiment_id)
    except ExperimentHeld:
        if _request_continue(store, experiment_id):
            return "serving"
        # It was paused meanwhile: its runner releases the lease now.
        lease = _acquire(store, experiment_id)
    try:
        if store.queue.find(experiment_id) is None:
            _add(store, lease, None, None, None)
    finally:
        store.experiments.release(lease)
    return ensure_daemon(QueueFiles.of(store_place), store_place)


def continue_in_queue(
    store: Store, store_place: str, experiment_id: int, changes: dict[str, Any], *, slots: int | None = None
) -> tuple[Continued | None, DaemonState]:
    """Continue an experiment with a changed configuration, even an ended one, and add it to the queue.

    The first result is None for a paused experiment without changes, which is only activated.
    """
    continued = reopen_if_needed(store, experiment_id, changes)
    max_trials = None if continued is None else continued.max_trials
    return continued, add(store, store_place, experiment_id, slots=slots, max_trials=max_trials)


def resume(store: Store, store_place: str) -> tuple[list[Entry], DaemonState | None]:
    """Start the daemon if this user's queue on this machine is not empty.

    Return the entries of the queue and the state of the daemon, which is None if the queue is empty.
    """
    entries = store.queue.entries(socket.gethostname(), this_user())
    # No daemon is started for an empty queue.
    return entries, ensure_daemon(QueueFiles.of(store_place), store_place) if entries else None


def has_files_here(experiment: Experiment) -> bool:
    """Return whether the code and configuration of an experiment are on this machine, for this user."""
    directory = experiment_dir(experiment.key)
    return directory is not None and (directory / "config.json").is_file()


def _add(store: Store, lease: Lease, priority: int | None, slots: int | None, max_trials: int | None) -> None:
    """Enqueue an experiment and mark it as ACTIVE, while holding its lease."""
    experiment = store.experiments.get(lease.experiment_id)
    # Again, now under the lease: it may have ended meanwhile.
    _check_can_run(store, experiment, slots, max_trials)
    store.queue.add(
        NewEntry(
            experiment_id=experiment.id,
            host=socket.gethostname(),
            owner=this_user(),
            priority=priority or StoredConfig(experiment.config).resources.priority or DEFAULT_PRIORITY,
            slots=slots,
            max_trials=max_trials,
        )
    )
    try:
        # After `queue.add`, which fails for a queued experiment, so that its captured environment is not overwritten.
        # The daemon cannot start the experiment yet, because this process holds the lease.
        save_environment(ExperimentFiles.for_key(experiment.key), os.environ)
    except BaseException:
        store.queue.remove(experiment.id)
        raise
    store.experiments.commit(lease, Change(experiment=ExperimentChange(state="ACTIVE", reason="")))
    if store.experiments.requests(experiment.id, experiment.last_request):
        # Requests are handled in order, so that the newest one wins.
        store.experiments.request(experiment.id, "activate")  # overrides a pause request that no runner has handled


def _acquire(store: Store, experiment_id: int) -> Lease:
    """Return the lease of an experiment. Raise `ExperimentHeld` if a runner is running it.

    A runner that has paused or ended the experiment is about to release the lease, so it is waited for.
    """
    deadline = time.monotonic() + _SECONDS_TO_RELEASE_LEASE
    while True:
        # No pause is needed: acquiring watches the lease for a few seconds.
        try:
            return store.experiments.acquire(experiment_id, this_process(), watch_seconds=_SHORT_WATCH)
        except ExperimentHeld:
            is_releasing = store.experiments.get(experiment_id).state in ("PAUSED", *EXPERIMENT_ENDED)
            if not is_releasing or time.monotonic() > deadline:
                raise


def _request_continue(store: Store, experiment_id: int) -> bool:
    """Request the runner to continue. Return False if it has paused the experiment in the meantime."""
    number = store.experiments.request(experiment_id, "activate")
    deadline = time.monotonic() + _SHORT_WATCH
    while time.monotonic() < deadline:
        experiment = store.experiments.get(experiment_id)
        # Too late: the runner has paused it and is about to exit.
        if experiment.state == "PAUSED":
            return False
        if experiment.last_request >= number:
            break
        time.sleep(_SECONDS_BETWEEN_POLLS)
    return True


def _check_can_run(store: Store, experiment: Experiment, slots: int | None, max_trials: int | None) -> None:
    """Raise `InvalidExperimentException` if an experiment cannot be queued on this machine."""
    check_can_run(experiment, max_trials, store.experiments.trials(experiment.id))
    if not has_files_here(experiment):
        raise InvalidExperimentException(
            f"the files of experiment {experiment.id} are not on this machine; queue it where it was created"
        )
    check_secrets(store, experiment)
    settings = settings_of(StoredConfig(experiment.config))
    if slots is not None:
        check_slots(settings, slots)
    if max_trials is not None:
        _check_extension(experiment, max_trials)


def _check_extension(experiment: Experiment, max_trials: int) -> None:
    """Raise if the search cannot be extended, before anything is written: the runner would reject it later."""
    config = stored_model(ExperimentFiles.for_key(experiment.key).read_config())
    present = StoredConfig(experiment.config).searcher.max_trials
    if present is not None and max_trials < present:
        raise InvalidExperimentException(
            f"searcher.max_trials: expected more than the present {present}, got {max_trials}"
        )
    # On a new searcher, because nothing may change before it is certain.
    build(config.searcher, config.hyperparameters, experiment.seed).on_event(Extended(max_trials))
