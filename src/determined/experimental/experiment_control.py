"""Control an experiment: queue it, send requests to its runner, and wait for its end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from determined.errors import DeterminedError
from determined.experimental.session import Session
from determined.stop_request import StopRequest
from determined.store.states import EXPERIMENT_ENDED

if TYPE_CHECKING:
    from determined.queue.daemon_start import DaemonState
    from determined.store.experiment_records import Experiment

logger = logging.getLogger("determined.experimental")

# Often enough for a log file of a long wait.
_SECONDS_BETWEEN_MESSAGES = 60.0
# A runner may exit before the next one has started, for example when the queue restarts it. Only after this time is the
# experiment considered abandoned.
_SECONDS_WITHOUT_RUNNER = 5.0


def enqueue(session: Session, experiment_id: int) -> None:
    """Add an experiment to the queue, which runs it in a separate process."""
    from determined.queue.submission import add

    _warn_if_shutting_down(experiment_id, session.write(lambda store: add(store, session.place, experiment_id)))


def activate(session: Session, experiment_id: int) -> None:
    """Resume an experiment: cancel a pause request if a runner has it, otherwise add it to the queue."""
    from determined.queue.submission import activate

    _warn_if_shutting_down(experiment_id, session.write(lambda store: activate(store, session.place, experiment_id)))


def request(session: Session, experiment_id: int, kind: StopRequest) -> None:
    """Send a request to the runner of an experiment; without a runner the state is changed at once."""
    from determined.experiment.control import request

    session.write(lambda store: request(store, experiment_id, kind))


def wait_for_end(session: Session, reload: Callable[[], Experiment], interval: float) -> None:
    """Wait until an experiment has ended; `reload` reads it, and is called every `interval` seconds.

    Raises ValueError if the experiment is paused, and DeterminedError if no process is running it.
    """
    last_message, without_runner = time.monotonic(), None
    # Polled, because the store sends no notification.
    while (row := reload()).state not in EXPERIMENT_ENDED:
        now = time.monotonic()
        if row.state == "PAUSED":
            from determined.store.standalone_runs import how_to_resume

            why = f" ({row.reason})" if row.reason else ""
            how = how_to_resume(row) if row.is_standalone else "call activate()"
            raise ValueError(f"experiment {row.id} is paused{why} and would not end. To resume it, {how}")
        # Kept from the first time on, and reset as soon as a process is found.
        without_runner = None if _is_running_or_queued(session, row) else without_runner or now
        if without_runner is not None and now - without_runner >= _SECONDS_WITHOUT_RUNNER:
            raise DeterminedError(_not_running_message(row))
        if now - last_message >= _SECONDS_BETWEEN_MESSAGES:
            last_message = now
            logger.info("waiting for experiment %d: %s, %.0f%%", row.id, row.state, 100 * (row.progress or 0.0))
        time.sleep(interval)


def _is_running_or_queued(session: Session, row: Experiment) -> bool:
    """Return whether a process runs the experiment, or the queue will."""
    from determined.queue.liveness import is_running_or_queued

    return session.read(lambda store: is_running_or_queued(store, session.place, row))


def _not_running_message(row: Experiment) -> str:
    """Return a message that no process runs the experiment, with the last output of its runner."""
    from determined.queue.liveness import last_runner_output

    output = last_runner_output(row)
    message = f"no process is running experiment {row.id}; call activate() to resume it"
    return f"{message}. The last output of its runner:\n{output}" if output else message


def _warn_if_shutting_down(experiment_id: int, daemon: DaemonState) -> None:
    """Warn that the experiment does not run yet, because the queue daemon is shutting down."""
    from determined.queue.daemon_start import SHUTTING_DOWN

    if daemon == "shutting down":
        logger.warning("experiment %d is in the queue, but %s", experiment_id, SHUTTING_DOWN)
