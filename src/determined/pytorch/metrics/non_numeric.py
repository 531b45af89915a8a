"""Warn once for each metric that is not a number, because it is not stored as the program returned it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from determined.pytorch.metrics.batch_metrics import Columns

logger = logging.getLogger("determined.pytorch")


class NonNumericWarnings:
    """Checks metrics at each report on the chief, and warns once per method and metric name."""

    def __init__(self, *, chief: bool) -> None:
        self._chief = chief
        self._warned: set[tuple[str, str]] = set()

    def check(self, columns: Columns, method: str) -> None:
        """Check the metrics that a method returned for several batches, one column per name."""
        # Only the chief reports, so the other ranks would only repeat the warning.
        if not self._chief:
            return
        for name, column in columns.items():
            if isinstance(column, np.ndarray):
                if column.dtype.kind == "c":
                    self._warn(method, name, column[0], "null is stored")
                elif column.ndim > 1 and column.size != len(column):
                    self._warn(method, name, column[0], "one number for all of its elements is stored")
            else:
                odd = [value for value in column if value is not None and not _is_number(value)]
                if odd:
                    self._warn(method, name, odd[0], "null is stored")

    def check_values(self, metrics: Mapping[str, Any], method: str) -> None:
        """Check the metrics that a method returned once for all data."""
        for name, value in metrics.items() if self._chief else ():
            if not _is_number(value):
                self._warn(method, name, value, "it is stored as it is, and cannot be compared or plotted")

    def _warn(self, method: str, name: str, value: Any, stored: str) -> None:
        """Warn, once per method and metric, that a returned metric is not a number."""
        if (method, name) not in self._warned:
            self._warned.add((method, name))
            logger.warning(
                # At most 60 characters of the value, which may be a large tensor.
                "%s returned the metric %r as %s (%.60r), which is not a number: %s. Return a number, or use a custom "
                "reducer (context.wrap_reducer).",
                method,
                name,
                type(value).__name__,
                value,
                stored,
            )


def _is_number(value: Any) -> bool:
    """Return whether a value is a real number or an array with one element."""
    if isinstance(value, np.ndarray):
        return value.size == 1 and value.dtype.kind in "fiub"
    # The complex types of numpy are np.number, too.
    return isinstance(value, (int, float, np.number, np.bool_)) and not isinstance(value, np.complexfloating)
