"""The limits of a search on the number of trials, in total and at the same time."""

from __future__ import annotations

from typing import Any

from determined.errors import InvalidConfigurationException
from determined.sentences import counted

# Invalid trials are replaced, so without this limit a space that is mostly invalid would be tried forever.
_INVALID_PER_TRIAL = 3


class Pool:
    """Counts the trials of a search. A trial occupies a place until it has exited or was paused."""

    def __init__(
        self, max_trials: int, at_once: int, *, replace_invalid: bool = True, fixed_because: str | None = None
    ) -> None:
        """Create a pool of `max_trials` trials, of which at most `at_once` run at the same time; 0 means no limit.

        With `replace_invalid`, another trial is created for one whose hyperparameters were invalid. `fixed_because` is
        the reason why the number of trials cannot be increased, if it cannot.
        """
        self.max_trials = max_trials
        self.created = 0
        self.exited = 0
        self.invalid = 0
        self.busy: set[int] = set()
        self._at_once = at_once
        self._replace_invalid = replace_invalid
        self._fixed_because = fixed_because

    @property
    def left(self) -> int:
        """The number of trials that are still to be created."""
        return 0 if self.failure else self.max_trials + self._replaced - self.created

    @property
    def has_room(self) -> bool:
        """Whether another trial may run now."""
        return self._at_once == 0 or len(self.busy) < self._at_once

    @property
    def done(self) -> int:
        """The number of trials that have ended and were not replaced."""
        return self.exited - self._replaced

    @property
    def open(self) -> int:
        """The number of trials that have not ended, including paused ones."""
        return self.created - self.exited

    @property
    def finished(self) -> bool:
        return self.open == 0 and self.left <= 0

    @property
    def failure(self) -> str | None:
        """The reason why the search ends early, or None: too many trials raised InvalidHP."""
        if not self._replace_invalid or self.invalid < _INVALID_PER_TRIAL * self.max_trials:
            return None
        return (
            f"{counted(self.invalid, 'trial')} raised InvalidHP, and {self.max_trials} were asked for: most of the "
            "space of hyperparameters is refused by the trials, so the search ends; narrow the space"
        )

    @property
    def _replaced(self) -> int:
        return self.invalid if self._replace_invalid else 0

    def create(self) -> int:
        """Return the number of the next trial, which occupies a place."""
        number = self.created
        self.created += 1
        self.busy.add(number)
        return number

    def exit(self, number: int, *, invalid: bool) -> None:
        """Count a trial as ended and free its place."""
        # Not `remove`: a paused trial holds no place.
        self.busy.discard(number)
        self.exited += 1
        self.invalid += invalid

    def reopen(self, number: int) -> None:
        """Count a trial that had ended as running again, which occupies a place.

        Not for an invalid trial, which was replaced by another one.
        """
        self.busy.add(number)
        self.exited -= 1

    def extend(self, max_trials: int) -> None:
        """Increase the total number of trials. Raise if the search cannot be extended or the number is smaller."""
        if self._fixed_because is not None:
            raise InvalidConfigurationException(message=f"the search cannot be extended: {self._fixed_because}")
        # Trials that were created cannot be taken back.
        if max_trials < self.max_trials:
            raise InvalidConfigurationException(
                message=f"searcher.max_trials: expected more than the present {self.max_trials}, got {max_trials}"
            )
        self.max_trials = max_trials

    def state(self) -> dict[str, Any]:
        return {
            "max_trials": self.max_trials,
            "created": self.created,
            "exited": self.exited,
            "invalid": self.invalid,
            "busy": sorted(self.busy),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.max_trials, self.created = state["max_trials"], state["created"]
        self.exited, self.invalid = state["exited"], state["invalid"]
        self.busy = set(state["busy"])
