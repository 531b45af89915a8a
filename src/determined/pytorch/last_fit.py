"""How a `fit` ended, for the next one in the same context, which continues from there."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from determined.pytorch.state import TrialState


class LastFit(NamedTuple):
    """Where training is, and which length was to be trained."""

    state: TrialState
    begins_at: int  # the batch that its length was counted from
    last_batch: int
    metric: str | None
    checkpoint: str | None  # the last one that was saved, to go back to

    def next_beginning(self) -> int:
        """Return where the next length counts from: the end, or the beginning of a length that was not reached."""
        return self.begins_at if self.state.batches_trained < self.last_batch else self.state.batches_trained

    def next_state(self, metric: str | None) -> TrialState:
        """Return the state that the next `fit` begins with; values of another metric are not compared with."""
        best = self.state.best_validation if metric == self.metric else None
        return replace(self.state, best_validation=best, skipped=list(self.state.skipped))
