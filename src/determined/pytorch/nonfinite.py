"""What is done when a training metric is no finite number any more: told, ended, or undone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

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


def checked_policy(on_nan: object) -> OnNan:
    for policy in get_args(OnNan):
        if on_nan == policy:
            known: OnNan = policy
            return known
    raise ValueError(f"fit: on_nan is one of {', '.join(get_args(OnNan))}, got {on_nan!r}")


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
        finding = f"train_batch() returned {name!r} = {value} for batch_idx {batch}"
        if self.policy == "stop":
            raise NonFiniteError(f"{finding}, and fit(on_nan='stop') ends training then; no checkpoint was saved since")
        if self.policy == "rollback":
            raise RollBack(batch, finding)
        if not self.told:
            self.told = True
            logger.warning("%s; training goes on, see fit(on_nan=...) for what else can be done", finding)


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
