"""Watch which hyperparameters trials train with: warn when they are not the assigned ones, stop a search in vain."""

from __future__ import annotations

import logging
from typing import Any

from determined.config.effective import differences
from determined.experiment.search_check import SearchCheck
from determined.experiment.trials import LiveTrial
from determined.store.experiment_records import TRIAL_ENDED

logger = logging.getLogger("determined.experiment")

_MOST_WARNINGS = 5  # a program that scales a value does so in every trial, of which there may be thousands


class Effects:
    """Remembers what was said, and how far the trials were checked."""

    def __init__(self, space: dict[str, Any]) -> None:
        self._check = SearchCheck(space)
        self._next = 0  # trials with smaller numbers are checked
        self._warnings = 0

    def note(self, trial: LiveTrial, passed: dict[str, Any] | None) -> None:
        """Take over what the store knows about a trial; the first time, warn of values that were replaced."""
        known, trial.passed_hparams = trial.passed_hparams, passed
        replaced = differences(trial.hparams, passed) if known is None else []
        if not replaced or self._warnings > _MOST_WARNINGS:
            return
        self._warnings += 1
        if self._warnings > _MOST_WARNINGS:
            logger.warning(
                "more trials train with values that were not assigned: `det experiment list-trials` shows them"
            )
            return
        logger.warning(
            "trial %d trains with hyperparameters that its program passed to init(), not with the assigned ones: %s",
            trial.id,
            ", ".join(map(str, replaced)),
        )

    def reason_to_stop(self, trials: dict[int, LiveTrial]) -> str | None:
        """Check the trials that began since the last call; return why the search is in vain, if it is."""
        while (trial := trials.get(self._next)) is not None:
            if trial.passed_hparams is None and trial.state not in TRIAL_ENDED:
                return None  # a later trial must not decide before this one, whichever is faster
            self._next += 1
            if trial.passed_hparams is not None:
                reason = self._check.take(trial.id, trial.hparams, trial.passed_hparams)
                if reason is not None:
                    return reason
        return None
