"""Detect processes that hang, do not stop when asked to, or have reached their time limit."""

from __future__ import annotations

import time

from determined.engines.base import Engine
from determined.experiment.runner.settings import Settings
from determined.experiment.runner.trials.live_trial import LiveTrial, Process

_SECONDS_BETWEEN_CHECKS = 5.0
_IDLE = 0.02  # CPU share below which a process counts as idle
_SECONDS_FOR_STACKS = 2.0


class Timeouts:
    """Checks the processes of trials from outside, with the monotonic clock."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self._settings = settings
        self._engine = engine

    def time_is_over(self, trial: LiveTrial) -> bool:
        """Return whether a trial has reached its time limit and was not asked to stop yet."""
        most = self._settings.max_trial_seconds
        return most is not None and trial.process is not None and trial.process.asked is None and trial.seconds > most

    def reason_to_kill(self, trial: LiveTrial) -> str | None:
        """Return why a trial's processes must be killed, or None. After a kill the result is None."""
        process = trial.process
        if process is None or process.killed is not None:
            return None
        now = time.monotonic()
        patience = self._settings.preemption_timeout
        if process.asked not in (None, "kill") and now - process.asked_at > patience:
            return f"it did not stop within {patience:g} s of being asked to"
        if trial.at_goal is not None:  # it waits for the runner's decision
            process.sign_of_life = now
            return None
        limit = self._settings.hang_timeout
        return None if limit is None else self._hangs(process, now, limit)

    def _works(self, process: Process, now: float) -> bool:
        """Return whether the processes have used the CPU since the last call."""
        used = self._engine.cpu_seconds(process.key)
        share = (used - process.cpu_seconds) / max(now - process.cpu_looked, 1e-3)
        process.cpu_seconds, process.cpu_looked = used, now
        return share > _IDLE

    def _hangs(self, process: Process, now: float, limit: float) -> str | None:
        """Return why a process counts as hanging: no report, no output and no CPU use for `limit` seconds.

        Its stacks are printed to the log first, so that the cause can be found.
        """
        if process.stacks_shown is None:
            if now - process.cpu_looked >= min(_SECONDS_BETWEEN_CHECKS, limit / 4) and self._works(process, now):
                process.sign_of_life = now
            if now - process.sign_of_life >= limit:
                process.stacks_shown = now
                self._engine.show_stacks(process.key)
                process.cpu_seconds, process.cpu_looked = self._engine.cpu_seconds(process.key), now
            return None
        if now - process.stacks_shown < _SECONDS_FOR_STACKS:
            return None
        # The printed stacks are output, too, so output does not count as a sign of life here.
        if process.reported > process.stacks_shown or self._works(process, now):
            process.stacks_shown, process.sign_of_life = None, now
            return None
        return f"it hung: no report, no output, no use of a CPU for {limit:g} s (hang_timeout); its log has the stacks"
