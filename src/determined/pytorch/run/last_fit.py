"""`LastFit`: the outcome of a `fit`, from which the next one in the same context continues."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from determined.pytorch.state import LoopState


class LastFit(NamedTuple):
    """The state at the end of a `fit`, and the training length that it was given."""

    state: LoopState
    begins_at: int  # the batch from which its length was counted
    last_batch: int
    metric: str | None
    checkpoint: str | None  # id of the last one saved, for a rollback

    def next_beginning(self) -> int:
        """Return the batch from which the next length counts: the current one, or where an unfinished length began."""
        return self.begins_at if self.state.batches_trained < self.last_batch else self.state.batches_trained

    def unfinished_end(self) -> int:
        """Return the last batch of a length that was not reached, or 0: the next `fit` trains at least to there."""
        return self.last_batch if self.state.batches_trained < self.last_batch else 0

    def next_state(self, metric: str | None) -> LoopState:
        """Return the state that the next `fit` begins with.

        The best validation is forgotten if the metric changed, because values of different metrics cannot be compared.
        """
        best = self.state.best_validation if metric == self.metric else None
        # A copy of the list: the next fit adds to it, and this record must not change.
        return replace(self.state, best_validation=best, skipped=list(self.state.skipped))
