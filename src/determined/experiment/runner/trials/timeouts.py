"""Detect processes that hang, do not stop when asked to, or have reached their time limit."""

from __future__ import annotations

import time

from determined.engines.base import Engine
from determined.experiment.runner.settings import Settings
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.trials.process import Activity, TrialProcess

_SECONDS_BETWEEN_CHECKS = 5.0  # reading the CPU time of all processes of a trial is slow
_IDLE = 0.02  # CPU share below which a process counts as idle
_SECONDS_FOR_STACKS = 2.0  # time for the workers to print their stacks before they are killed


class Timeouts:
    """Checks the processes of trials from outside, with the monotonic clock."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self._settings = settings
        self._engine = engine

    def has_reached_time_limit(self, trial: LiveTrial) -> bool:
        """Return whether a trial has reached its time limit and has no stop request yet."""
        most = self._settings.max_trial_seconds
        # A trial that is stopping already is limited by `preemption_timeout`.
        if most is None or trial.process is None or trial.process.stopping.request is not None:
            return False
        return trial.seconds > most

    def reason_to_kill(self, trial: LiveTrial) -> str | None:
        """Return why a trial's processes must be killed, or None. After a kill the result is None."""
        process = trial.process
        if process is None or process.stopping.kill_reason is not None:
            return None
        now = time.monotonic()
        patience = self._settings.preemption_timeout
        stopping = process.stopping
        if stopping.request not in (None, "kill") and now - stopping.requested_at > patience:
            return f"it did not stop within {patience:g} s of being asked to"
        if trial.observed.at_goal is not None:  # it waits for the runner's decision
            process.activity.latest = now
            return None
        limit = self._settings.hang_timeout
        return None if limit is None else self._reason_for_hang(process, now, limit)

    def _uses_cpu(self, key: str, activity: Activity, now: float) -> bool:
        """Return whether the processes have used the CPU since the last call."""
        used = self._engine.cpu_seconds(key)
        # At least a millisecond, since two checks may fall together.
        share = (used - activity.cpu_seconds) / max(now - activity.cpu_checked, 1e-3)
        activity.cpu_seconds, activity.cpu_checked = used, now
        return share > _IDLE

    def _reason_for_hang(self, process: TrialProcess, now: float, limit: float) -> str | None:
        """Return why a process counts as hanging: no report, no output and no CPU use for `limit` seconds.

        Its stacks are printed to the log first, so that the cause can be found.
        """
        key, activity = process.key, process.activity
        if activity.stacks_shown is None:
            # The CPU time is checked at least four times within the limit.
            is_due = now - activity.cpu_checked >= min(_SECONDS_BETWEEN_CHECKS, limit / 4)
            if is_due and self._uses_cpu(key, activity, now):
                activity.latest = now
            if now - activity.latest >= limit:
                activity.stacks_shown = now
                self._engine.show_stacks(key)
                # Printing the stacks takes CPU time, too: from here on only new use counts.
                activity.cpu_seconds, activity.cpu_checked = self._engine.cpu_seconds(key), now
            return None
        if now - activity.stacks_shown < _SECONDS_FOR_STACKS:
            return None
        # The printed stacks are output, too, so output does not count as activity here.
        if activity.reported > activity.stacks_shown or self._uses_cpu(key, activity, now):
            activity.stacks_shown, activity.latest = None, now
            return None
        return f"it hung: no report, no output, no use of a CPU for {limit:g} s (hang_timeout); its log has the stacks"
