"""The reports of a trial, as far as its runner has read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

MOST_VALUES = 12  # number of values kept per trial for display


class Result(NamedTuple):
    """A validation: the searcher metric, and the length trained so far in the searcher's unit; None if not reported."""

    metric: float | None
    time: float | None


@dataclass
class Observed:
    """The reports of a trial so far. Other modules read the fields, and change them through the methods alone."""

    read_up_to: tuple[int, int] = (0, -1)  # attempt and sequence number of the newest validation that was read
    last_step: int = -1  # step of that validation
    steps: int = 0  # largest step that the trial reported or saved
    last_result: Result | None = None  # the newest validation that can be compared
    at_goal: Result | None = None  # a validation at the goal that waits for a decision
    best: float | None = None
    values: list[float] = field(default_factory=list)  # newest values of the metric, for display
    # Hyperparameters that the program passed to `init()`; None until training begins.
    passed_hparams: dict[str, Any] | None = None
    progress: float | None = None
    warned: set[str] = field(default_factory=set)  # warnings about reports that were logged

    def note_validation(self, attempt: int, sequence: int, steps_completed: int) -> None:
        """Record that a validation was read, also if it cannot be compared."""
        self.read_up_to = (attempt, sequence)
        self.last_step = steps_completed

    def note_result(self, result: Result, best: float | None, *, is_at_goal: bool) -> None:
        """Record the newest validation that can be compared, and the best value including it."""
        self.last_result, self.best = result, best
        if result.metric is not None:
            self.values = [*self.values[1 - MOST_VALUES :], result.metric]
        if is_at_goal:
            self.at_goal = result

    def note_progress(self, progress: float | None, steps: int) -> None:
        """Record the progress in the trial's row."""
        self.progress, self.steps = progress, steps

    def note_steps(self, steps: int) -> None:
        """Record the largest step, after the processes have ended."""
        self.steps = steps

    def note_hparams(self, passed: dict[str, Any] | None) -> bool:
        """Record the hyperparameters that the program uses; return whether they were unknown before."""
        was_unknown = self.passed_hparams is None
        self.passed_hparams = passed
        return was_unknown

    def skip_attempts(self, newest: int) -> None:
        """Ignore the reports of all attempts up to this one, which were read before they are repeated."""
        self.read_up_to = (newest, 2**62)  # larger than any sequence number

    def recall(self, values: list[float]) -> None:
        """Set the values for display from the store, after a pause."""
        self.values = values[-MOST_VALUES:]

    def take_result(self) -> Result:
        """Return the validation at the goal, which is decided on now."""
        assert self.at_goal is not None
        result, self.at_goal = self.at_goal, None
        return result

    def discard_result(self) -> None:
        """Drop a validation at the goal: its model was not saved, so the trial must reach the goal again."""
        self.at_goal = None

    def warn_once(self, warning: str) -> bool:
        """Return whether a warning is new, and remember it."""
        is_new = warning not in self.warned
        self.warned.add(warning)
        return is_new
