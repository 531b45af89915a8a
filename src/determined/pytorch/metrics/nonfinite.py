"""Detect training metrics and weights that are NaN or infinite, and warn, stop or roll back (`fit(on_nan=...)`)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import torch

from determined.pytorch.metrics.batch_metrics import Columns

logger = logging.getLogger("determined.pytorch")

OnNan = Literal["warn", "stop", "rollback"]

MOST_ROLLBACKS = 10  # in a row; after that, skipping single batches evidently does not help


class NonFiniteError(RuntimeError):
    """Raised when a training metric or weight is NaN or infinite and training must end."""


class RollBack(Exception):
    """Raised to return to the last checkpoint because training became non-finite at `batch`."""

    def __init__(self, batch: int, finding: str) -> None:
        super().__init__(finding)
        self.batch = batch


def checked_policy(on_nan: Any) -> OnNan:
    """Return `on_nan` if it is a valid policy, else raise ValueError."""
    if on_nan not in get_args(OnNan):
        raise ValueError(f"fit: on_nan is one of {', '.join(get_args(OnNan))}, got {on_nan!r}")
    policy: OnNan = on_nan
    return policy


class NonFinite:
    """Checks the metrics of each report for NaN and infinity.

    At a report they are on the host anyway; checking each batch would make it wait for the device.
    """

    def __init__(self, policy: OnNan) -> None:
        self.policy = policy
        self.warned = False

    def check(self, columns: Columns, batch_of: Callable[[int], int]) -> None:
        """Apply the policy if a metric of these batches is not finite; `batch_of` maps a row to a batch index."""
        found = _first(columns)
        if found is None:
            return
        number, name, value = found
        batch = batch_of(number)
        self._act(batch, f"train_batch() returned {name!r} = {value} for batch_idx {batch}")

    def check_weights(self, models: list[torch.nn.Module], batch: int, agree: Callable[[bool], list[bool]]) -> None:
        """Apply the policy if a weight is not finite, so that it is not saved in a checkpoint.

        All ranks must call it: `agree` exchanges what each rank found.
        """
        # This reads all weights and waits for the device, which is too slow for a mere warning.
        if self.policy == "warn":
            return
        spoilt = not all(parameter.isfinite().all() for model in models for parameter in model.parameters())
        # One rank alone must not raise: the others would wait for it in the next collective.
        if any(agree(spoilt)):
            self._act(batch, f"a weight is NaN or infinite after batch_idx {batch}")

    def _act(self, batch: int, finding: str) -> None:
        """Raise NonFiniteError or RollBack, or warn once, according to the policy."""
        # All ranks act alike, since all have the same combined metrics.
        if self.policy == "stop":
            raise NonFiniteError(f"{finding}: training ends because of fit(on_nan='stop')")
        if self.policy == "rollback":
            raise RollBack(batch, finding)
        if not self.warned:
            self.warned = True
            logger.warning("%s; training continues. fit(on_nan=...) can stop or roll back instead", finding)


class RollBacks:
    """The rollbacks of one fit, and the batches to skip because of them."""

    def __init__(self) -> None:
        self.skip: set[int] = set()
        self.in_a_row = 0

    def note(self, finding: RollBack, source: Any, saved_at: int, window: int) -> None:
        """Skip the batch of `finding` and the rest of its gradient aggregation window.

        If training becomes non-finite again without a good batch in between, one more earlier batch is skipped each
        time, down to the checkpoint `source` saved at batch `saved_at`: an earlier batch may be the cause. Raises
        NonFiniteError if there is no usable checkpoint, or after MOST_ROLLBACKS rollbacks in a row.
        """
        if source is None:
            raise NonFiniteError(f"{finding}, and there is no checkpoint yet to return to") from finding
        # The checkpoint contains the batch already, so returning to it cannot help.
        if finding.batch < saved_at:
            raise NonFiniteError(
                f"{finding}, which is before checkpoint {source} was saved: resume from an earlier checkpoint"
            ) from finding
        if self.skip and finding.batch > max(self.skip) + 1:
            self.in_a_row = 0  # good batches were trained since the last rollback
        self.in_a_row += 1
        if self.in_a_row > MOST_ROLLBACKS:
            raise NonFiniteError(f"{finding}, after {MOST_ROLLBACKS} rollbacks without a good batch") from finding
        # Complete windows, because a part of one would leave gradients of another scale.
        first = (finding.batch - self.in_a_row + 1) // window * window
        last = finding.batch // window * window + window - 1
        self.skip |= set(range(max(first, saved_at), last + 1))
        logger.warning(
            "%s: returning to checkpoint %s and continuing without the batches %s", finding, source, sorted(self.skip)
        )


def _first(columns: Columns) -> tuple[int, str, float] | None:
    """Return the row of the first batch with a non-finite metric, with its name and value, or None."""
    earliest: tuple[int, str, float] | None = None
    for name, column in columns.items():
        # Integers are always finite, and lists are values that are not numbers.
        if not isinstance(column, np.ndarray) or column.dtype.kind not in "fc" or np.isfinite(column).all():
            continue
        by_batch = column.reshape(len(column), -1)
        number = int(np.argmin(np.isfinite(by_batch).all(axis=1)))
        if earliest is None or number < earliest[0]:
            values = by_batch[number]
            earliest = (number, name, values[~np.isfinite(values)][0].item())
    return earliest
