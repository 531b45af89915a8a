"""When a trial's processes must be ended by force, and when their time is over."""

from __future__ import annotations

import time

from determined.engines.base import Engine
from determined.experiment.settings import Settings
from determined.experiment.trials import LiveTrial

_SECONDS_BETWEEN_CHECKS = 5.0
_IDLE = 0.02  # the part of a CPU that a process uses which only waits
_SECONDS_FOR_STACKS = 2.0


class Health:
    """Looks at processes from outside, by the monotonic clock."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self._settings = settings
        self._engine = engine
        self._checked: dict[str, float] = {}
        self._stacks_shown: dict[str, float] = {}

    def time_is_over(self, trial: LiveTrial) -> bool:
        most = self._settings.max_trial_seconds
        return most is not None and trial.process is not None and trial.process.asked is None and trial.seconds > most

    def reason_to_kill(self, trial: LiveTrial) -> str | None:
        """None as long as there is none; asked again after it was given, None as well."""
        process = trial.process
        if process is None or process.killed is not None:
            return None
        now = time.monotonic()
        if process.asked is not None and process.asked != "kill":
            if now - process.asked_at > self._settings.preemption_timeout:
                return f"it did not stop within {self._settings.preemption_timeout:g} s of being asked to"
            return None
        if self._settings.hang_timeout is None or trial.at_goal is not None:
            return None
        return self._hangs(trial, now, self._settings.hang_timeout)

    def _hangs(self, trial: LiveTrial, now: float, limit: float) -> str | None:
        """Neither a report nor a line of output nor the use of a CPU: stacks are shown first, for whoever looks why."""
        process = trial.process
        assert process is not None
        checked = self._checked.get(process.key, process.started)
        if now - checked >= min(_SECONDS_BETWEEN_CHECKS, limit / 4):
            self._checked[process.key] = now
            used = self._engine.cpu_seconds(process.key)
            if used - process.cpu_seconds > _IDLE * (now - checked):
                process.sign_of_life = now
            process.cpu_seconds = used
        shown = self._stacks_shown.get(process.key)
        if shown is None:
            if now - process.sign_of_life >= limit:
                self._stacks_shown[process.key] = now
                self._engine.show_stacks(process.key)
            return None
        if now - shown < _SECONDS_FOR_STACKS:  # the stacks are lines in the log, and no sign of life
            return None
        return f"it hung: no report, no output, no use of a CPU for {limit:g} s (hang_timeout); its log has the stacks"
