"""`MissingNodes`: reports that an experiment waits for nodes, because too few are left for any of its trials."""

from __future__ import annotations

import logging

from determined.experiment.runner.runner_state import RunnerState
from determined.store.experiment_changes import ExperimentChange

logger = logging.getLogger("determined.experiment")


class MissingNodes:
    """Warns once when too few nodes are left for a trial, and records the reason while the experiment waits.

    The experiment is not paused: a machine that is started again joins after a while, and its slots are used then.
    """

    def __init__(self, run: RunnerState) -> None:
        self._run = run
        self._reason = ""

    def check(self) -> None:
        """Warn if no trial can run, and record when that changes."""
        run = self._run
        # Then the reason is that of the failure.
        if run.failure is not None:
            return
        missing = run.engine.reason_not_to_fit(run.settings.slots_per_trial)
        reason = f"{missing}; waiting for nodes to join" if missing is not None and self._is_waiting() else ""
        if reason == self._reason:
            return
        # Once, although the reason changes with each further node.
        if not self._reason:
            logger.warning("%s", reason)
        self._reason = reason
        # For `describe` and the page: this runner may have no terminal.
        run.commit(experiment=ExperimentChange(reason=reason))

    def _is_waiting(self) -> bool:
        """Return whether a trial could start if there were slots; False if the experiment stops or lost its cluster."""
        run = self._run
        if run.stop_request is not None or run.engine.granter_exited:
            return False
        return any(trial.may_start for trial in run.live())
