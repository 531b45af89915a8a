"""`AwaitedSlots`: says that an experiment waits for slots of its cluster while none of its trials runs."""

from __future__ import annotations

import logging
import time

from determined.experiment.runner.runner_state import RunnerState
from determined.sentences import counted

logger = logging.getLogger("determined.experiment")

_SECONDS_IN_SILENCE = 5.0  # a node that only has to get the code is ready before


class AwaitedSlots:
    """Warns once for each reason to wait, after some seconds in which nothing ran although trials are ready."""

    def __init__(self, run: RunnerState, seconds: float = _SECONDS_IN_SILENCE) -> None:
        self._run = run
        self._seconds = seconds
        self._since: float | None = None
        self._reason = ""

    def check(self) -> None:
        """Warn if that is due."""
        run = self._run
        is_over = run.stop_request is not None or run.failure is not None
        waiting = 0 if is_over or run.by_key else sum(trial.may_start for trial in run.live())
        reason = run.engine.reason_to_wait if waiting else ""
        if not reason:
            self._since, self._reason = None, ""
            return
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if reason == self._reason or now - self._since < self._seconds:
            return
        self._reason = reason
        need = run.settings.slots_per_trial
        logger.warning("waiting for %s for each of %s: %s", counted(need, "slot"), counted(waiting, "trial"), reason)
