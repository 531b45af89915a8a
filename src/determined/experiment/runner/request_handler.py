"""Handle stop requests: those in the store, in order, and signals to this process."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable

from determined.config.secrets.line_mask import line_mask
from determined.config.stored import StoredConfig
from determined.experiment.creation.current_config import with_settings
from determined.experiment.runner import decisions
from determined.experiment.runner.runner_state import RunnerState
from determined.experiment.runner.settings import settings_of
from determined.experiment.runner.trials.stopping import kill_without_saving, request_stop
from determined.stop_request import OF_USERS, StopRequest, is_stronger
from determined.store.experiment_changes import ExperimentChange
from determined.store.states import ExperimentState

logger = logging.getLogger("determined.experiment")

_SECONDS_BETWEEN_POLLS = 0.5  # commands say that a runner reacts within a second
_STOPPING: dict[StopRequest, ExperimentState] = {"cancel": "STOPPING_CANCELED", "kill": "STOPPING_KILLED"}


class RequestHandler:
    """Polls requests twice a second and carries them out.

    Requests to the experiment with ids up to `outdated` were made before it was activated and are ignored.
    """

    def __init__(self, run: RunnerState, interrupted: Callable[[], StopRequest | None], outdated: int) -> None:
        self._run = run
        self._interrupted = interrupted
        self._outdated = outdated
        self._last = run.experiment.last_request
        self._polled = 0.0

    def handle(self) -> None:
        """Carry out new requests and signals."""
        now = time.monotonic()
        # Signals are checked in every round, the store only twice a second.
        if now - self._polled >= _SECONDS_BETWEEN_POLLS:
            self._polled = now
            self._handle_stored()
        request = self._interrupted()
        if request is not None:
            self._raise_to(request)

    def is_stop_requested(self) -> bool:
        """Return whether the experiment is to pause or end, without acting on it; polls the store twice a second."""
        now = time.monotonic()
        if self._interrupted() is not None:
            return True
        if now - self._polled < _SECONDS_BETWEEN_POLLS:
            return False
        run = self._run
        found = any(
            request.trial_id is None and request.kind in OF_USERS and request.id > self._outdated
            for request in run.query(lambda store: store.requests(run.experiment.id, self._last))
        )
        # The request stays unread, because `handle` carries it out.
        self._polled = 0.0 if found else now  # 0: `handle` carries out the request immediately
        return found

    def _handle_stored(self) -> None:
        """Carry out new requests in the store, and record the last one."""
        run = self._run
        for request in run.query(lambda store: store.requests(run.experiment.id, self._last)):
            self._last = request.id
            if request.trial_id is not None:
                if request.kind in ("kill", "cancel"):
                    self._end_trial(request.trial_id, request.kind)
            elif request.kind == "reconfigure":
                self._reconfigure()
            elif request.id > self._outdated:
                # Only a user's pause keeps the experiment paused in the queue; other stops are resumed.
                run.paused_by_request = request.kind == "pause"
                self._raise_to(None if request.kind == "activate" else request.kind)
            # Recorded after it was carried out, so that the next runner repeats it after a kill in between.
            run.commit(experiment=ExperimentChange(last_request=request.id))

    def _reconfigure(self) -> None:
        """Apply changed settings to everything that starts from now on; no running trial is stopped."""
        run = self._run
        row = run.query(lambda store: store.get(run.experiment.id))
        # New settings apply to the configuration with secrets, which the store does not have.
        run.settings = settings_of(StoredConfig(with_settings(run.settings.config.plain, row.config)))
        run.mask = line_mask(os.environ, run.settings.config.plain)

    def _raise_to(self, request: StopRequest | None) -> None:
        """Carry out a request that overrides the present one. None withdraws a pause, and nothing else."""
        run = self._run
        if request == "halt" and run.stop_request == "cancel":
            request = "kill"  # it was canceled before: do not wait for its trials any more
        is_withdrawn = request is None and run.stop_request == "pause"
        if not is_withdrawn and not is_stronger(request, run.stop_request):
            return
        logger.info("experiment %d: %s", run.experiment.id, request or "activate")
        run.stop_request = request
        # Committed before trials are asked, so that a runner that takes over continues to stop them.
        if request in _STOPPING:
            run.commit(experiment=ExperimentChange(state=_STOPPING[request]))
        if request is not None:
            for trial in run.live():
                if request == "halt":
                    kill_without_saving(run, trial)
                else:
                    request_stop(run, trial, request)

    def _end_trial(self, trial_id: int, request: StopRequest) -> None:
        """Cancel or kill a single trial."""
        run = self._run
        for trial in run.live():
            if trial.id == trial_id and trial.process is None:
                decisions.conclude(run, trial, "CANCELED", "canceled", None)
            elif trial.id == trial_id:
                request_stop(run, trial, request)
