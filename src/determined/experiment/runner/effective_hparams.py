"""Check which hyperparameters trials train with: warn if they differ from the assigned ones, stop a useless search."""

from __future__ import annotations

import logging
from typing import Any

from determined.config.effective import differences
from determined.experiment.creation.search_check import SearchCheck
from determined.experiment.runner.trials.live_trial import LiveTrial

logger = logging.getLogger("determined.experiment")

_MOST_WARNINGS = 5  # a program that changes a value does so in every one of possibly thousands of trials


class EffectiveHparams:
    """Tracks the hyperparameters that trials really use, and limits the warnings about them."""

    def __init__(self, space: dict[str, Any]) -> None:
        self._check = SearchCheck(space)
        self._next = 0  # trials with smaller numbers were checked
        self._warnings = 0

    def note(self, trial: LiveTrial, passed: dict[str, Any] | None) -> None:
        """Record the hyperparameters that a trial's program passed to `init()`.

        Warn once if they replace assigned values.
        """
        was_unknown = trial.observed.note_hparams(passed)
        # Once per trial: restarts pass the same values.
        replaced = differences(trial.spec.hparams, passed) if was_unknown else []
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
        """Check the trials that started since the last call; return why the search is useless, if it is."""
        while (trial := trials.get(self._next)) is not None:
            passed = trial.observed.passed_hparams
            # A trial that ended without passing any is skipped.
            if passed is None and not trial.has_ended:
                return None  # in order: the verdict must not depend on which trial is faster
            self._next += 1
            if passed is not None:
                reason = self._check.take(trial.id, trial.spec.hparams, passed)
                if reason is not None:
                    return reason
        return None
