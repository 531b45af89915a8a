"""What is done when a training metric is no finite number any more: told, ended, or undone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch

from determined.pytorch.metrics import Columns

logger = logging.getLogger("determined.pytorch")

OnNan = Literal["warn", "stop", "rollback"]

MOST_ROLLBACKS = 10  # in a row: what comes back so often is not a matter of single batches


class NonFiniteError(RuntimeError):
    """A training metric is NaN or infinite, and training was to end then."""


class RollBack(Exception):
    """Leaves the loop for the last checkpoint, because of what train_batch returned for `batch`."""

    def __init__(self, batch: int, finding: str) -> None:
        super().__init__(finding)
        self.batch = batch


def checked_policy(on_nan: Any) -> OnNan:
    if on_nan not in get_args(OnNan):
        raise ValueError(f"fit: on_nan is one of {', '.join(get_args(OnNan))}, got {on_nan!r}")
    policy: OnNan = on_nan
    return policy


@dataclass
class NonFinite:
    """Looks at the metrics of each report: they are on the host then, so that no batch waits for it."""

    policy: OnNan
    told: bool = False

    def look(self, columns: Columns, batch_of: Callable[[int], int]) -> None:
        """Raise what the policy says if a metric of these batches is NaN or infinite."""
        found = _first(columns)
        if found is None:
            return
        number, name, value = found
        batch = batch_of(number)
        self._act(batch, f"train_batch() returned {name!r} = {value} for batch_idx {batch}")

    def look_at_weights(self, models: list[torch.nn.Module], batch: int, agree: Callable[[bool], list[bool]]) -> None:
        """Before a checkpoint after `batch`: spoilt weights are not to be saved. In step, by `agree`."""
        if self.policy == "warn":
            return
        spoilt = not all(parameter.isfinite().all() for model in models for parameter in model.parameters())
        if any(agree(spoilt)):
            self._act(batch, f"a weight is NaN or infinite after batch_idx {batch}")

    def _act(self, batch: int, finding: str) -> None:
        if self.policy == "stop":
            raise NonFiniteError(f"{finding}, and fit(on_nan='stop') ends training then")
        if self.policy == "rollback":
            raise RollBack(batch, finding)
        if not self.told:
            self.told = True
            logger.warning("%s; training goes on, see fit(on_nan=...) for what else can be done", finding)


@dataclass
class RollBacks:
    """What was undone in this fit: the batches to leave out from now on."""

    skip: set[int] = field(default_factory=set)
    in_a_row: int = 0

    def note(self, finding: RollBack, source: Any, saved_at: int, window: int) -> None:
        """Leave out the batch that was found, and with it all of the window whose gradients are added up.

        If it comes back, an ever longer stretch before it is left out, down to the checkpoint `source` at `saved_at`:
        the harm may have been done earlier.
        """
        if source is None:
            raise NonFiniteError(f"{finding}, and there is no checkpoint yet to go back to") from finding
        if finding.batch < saved_at:
            raise NonFiniteError(
                f"{finding}, which is before checkpoint {source} was saved: go on from an earlier one"
            ) from finding
        if self.skip and finding.batch > max(self.skip) + 1:
            self.in_a_row = 0  # there were good batches since
        self.in_a_row += 1
        if self.in_a_row > MOST_ROLLBACKS:
            raise NonFiniteError(f"{finding}, after {MOST_ROLLBACKS} rollbacks without a good batch") from finding
        first = (finding.batch - self.in_a_row + 1) // window * window
        last = finding.batch // window * window + window - 1
        self.skip |= set(range(max(first, saved_at), last + 1))
        logger.warning("%s: back to checkpoint %s, and on without the batches %s", finding, source, sorted(self.skip))


def _first(columns: Columns) -> tuple[int, str, float] | None:
    """The first batch with such a metric: its number, and the metric."""
    earliest: tuple[int, str, float] | None = None
    for name, column in columns.items():
        if not isinstance(column, np.ndarray) or column.dtype.kind not in "fc" or np.isfinite(column).all():
            continue
        by_batch = column.reshape(len(column), -1)
        number = int(np.argmin(np.isfinite(by_batch).all(axis=1)))
        if earliest is None or number < earliest[0]:
            values = by_batch[number]
            earliest = (number, name, values[~np.isfinite(values)][0].item())
    return earliest
