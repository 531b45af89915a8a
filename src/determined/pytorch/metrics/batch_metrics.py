"""Collect the metrics of batches and convert them to numbers at a report.

While batches run, a scalar on an accelerator is only copied there: reading it would wait for the device. Larger tensors
are moved to the host at once, because until a report they could fill the memory of the device. At a report, the values
of one name become a *column*: an array with one entry per batch, or a plain list for values that are not numbers.
Tensors with the same type, device and shape are stacked and copied to the host in one transfer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from determined.errors import CheckFailedError
from determined.pytorch.metrics.reducer import as_numpy

Metrics = dict[str, Any]
Column = Any  # np.ndarray, or a list if the values are not numbers of one shape
Columns = dict[str, Column]


class BatchMetrics(list[Metrics]):
    """The metrics of each batch since the last report, one dict per batch.

    `dtypes` holds the type of metrics that were CPU scalars: only their numbers are kept.
    """

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: dict[str, Any] = {}

    def keep(self, metrics: Mapping[str, Any]) -> None:
        """Store the metrics of a batch, detached from the graph and copied where later batches could overwrite them."""
        dtypes = self.dtypes
        kept = {}
        for name, value in metrics.items():
            if name in dtypes and type(value) is torch.Tensor:  # it was a CPU scalar before: take the short path
                try:
                    kept[name] = value.item()
                    continue
                # `item()` raises these for a tensor with several elements, or without data (meta).
                except (RuntimeError, NotImplementedError):
                    pass  # this time it is not a scalar
            kept[name] = self._keep_value(name, value)
        self.append(kept)

    def _keep_value(self, name: str, value: Any) -> Any:
        """Return the value to store: the number of a CPU scalar, a copy of another tensor, or the value itself."""
        if isinstance(value, torch.Tensor):
            # Only scalars in host memory can be read without waiting for a device.
            if not value.is_cpu or value.dim():
                return _keep_tensor(value)
            array = as_numpy(value)
            self.dtypes[name] = array.dtype
            return array.item()
        if isinstance(value, (list, tuple, dict)):
            return _without_graph(value)
        return value


def _keep_tensor(value: torch.Tensor) -> torch.Tensor:
    """Return a copy without the graph: later batches overwrite a running total or the output of a CUDA graph.

    The copy of a scalar stays on its device and waits for nothing. That of a larger tensor is on the host, although
    this waits for the device: until the next report, the tensors of all batches could fill the memory of the device.
    """
    value = value.detach()
    return value.to("cpu", copy=True) if value.dim() else value.clone()


def _without_graph(value: Any) -> Any:
    """Return a nested value with tensors as arrays, so that the graph and device memory are released."""
    if isinstance(value, torch.Tensor):
        return as_numpy(value)
    if isinstance(value, dict):
        return {key: _without_graph(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_graph(item) for item in value]
    return value


def columns_of(batches: BatchMetrics, method: str, error: type[Exception] = CheckFailedError) -> Columns:
    """Return one column per metric name; raise `error`, naming `method`, if batches have different names."""
    if not batches:
        return {}
    names = batches[0].keys()
    try:
        columns: Columns = {name: [batch[name] for batch in batches] for name in names}
        # Equal numbers of names, and all names of the first batch present,
        # together mean equal names; this is faster than comparing sets.
        same = all(map(len(names).__eq__, map(len, batches)))
    except KeyError:
        same = False
    if not same:
        number, other = next((i, batch) for i, batch in enumerate(batches) if batch.keys() != names)
        raise error(
            f"{method} must return the same metric names for every batch: "
            f"first {sorted(map(str, names))}, then {sorted(map(str, other))} (batch {number + 1} of {len(batches)})"
        )
    _fetch_tensors(columns)
    for name, column in columns.items():
        if isinstance(column, list):
            columns[name] = _as_array(column, batches.dtypes.get(name))
    return columns


def _fetch_tensors(columns: Columns) -> None:
    """Replace columns of tensors by arrays; tensors of one type, device and shape share a stack and a transfer."""
    alike: dict[Any, list[str]] = {}
    for name, column in columns.items():
        first = column[0]
        # Exact types: a subclass may define other operations, and is converted one by one.
        if type(first) is torch.Tensor and all(type(value) is torch.Tensor for value in column):
            alike.setdefault((first.dtype, first.device, first.shape), []).append(name)
    for names in alike.values():
        values = [value for name in names for value in columns[name]]
        shape = values[0].shape
        if any(value.shape != shape for value in values):
            continue  # shapes differ within the group: _as_array converts the values one by one
        stacked = as_numpy(torch.stack(values))
        length = len(values) // len(names)
        for number, name in enumerate(names):
            columns[name] = stacked[number * length : (number + 1) * length]


def _as_array(column: list[Any], dtype: Any = None) -> Column:
    """Return an array if the values are numbers of one shape, else the list with tensors converted."""
    kinds = {type(value) for value in column}
    # A float from a tensor gets the tensor's type back, so that
    # a report is the same as before the number was taken out.
    if kinds == {float} and (dtype is None or dtype.kind == "f"):
        return np.array(column, dtype=dtype)
    if dtype is not None and kinds == {type(dtype.type(0).item())}:
        return np.array(column, dtype=dtype)
    column = [as_numpy(value) for value in column]
    if any(value is None or isinstance(value, (str, bytes, dict)) for value in column):
        return column
    try:
        array = np.array(column)
    except ValueError:  # values of different shapes
        return column
    if array.dtype.kind == "O":  # whole numbers beyond 64 bits, fractions, decimals
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            return column
    return array if array.dtype.kind in "fiubc" else column


def rows_of(columns: Columns, returned: BatchMetrics) -> list[Metrics]:
    """Return the columns as one dict per batch for callbacks; values returned as plain numbers stay plain numbers."""
    rows: list[Metrics] = [{} for _ in returned]
    for name, column in columns.items():
        # Callbacks get back what the program returned: plain numbers, or arrays for tensors.
        plain = name not in returned.dtypes and not isinstance(returned[0][name], _ARRAYS)
        if plain and isinstance(column, np.ndarray):
            column = column.tolist()
        scalars = isinstance(returned[0][name], np.generic)
        for i, row in enumerate(rows):
            row[name] = column[i, ...] if isinstance(column, np.ndarray) and not scalars else column[i]
    return rows


_ARRAYS = (torch.Tensor, np.ndarray, np.generic)


def combine(columns_of_ranks: Sequence[Columns]) -> Columns:
    """Return the mean over ranks of each metric for each batch; ranks without a batch are left out."""
    # Ranks without a batch have no columns.
    present = [columns for columns in columns_of_ranks if columns]
    if len(present) < 2:
        return present[0] if present else {}
    first = present[0]
    for rank, columns in enumerate(present):
        if columns.keys() != first.keys():
            raise CheckFailedError(
                "train_batch() must return the same metric names on every rank: "
                f"{sorted(map(str, first))} on rank 0, {sorted(map(str, columns))} on rank {rank}"
            )
    return {name: _mean_of_ranks([columns[name] for columns in present]) for name in first}


def _mean_of_ranks(columns: list[Column]) -> Column:
    """Return the mean of one column over ranks."""
    if all(isinstance(column, np.ndarray) for column in columns):
        if len({column.shape for column in columns}) == 1:
            return np.mean(np.stack(columns), axis=0)
        # Shapes differ between ranks, so only the mean of each batch can be averaged.
        flat = [column.reshape(len(column), -1).mean(axis=1) for column in columns]
        return np.mean(np.stack(flat), axis=0)
    return [_mean_of_values(values) for values in zip(*columns, strict=True)]


def _mean_of_values(values: tuple[Any, ...]) -> Any:
    """Return the mean of what the ranks returned for one batch, or the first value if they are not numbers."""
    mean = _mean(values)
    # Text, or None, has no mean: all ranks show that of the first.
    return mean if mean is not None and not np.isnan(mean) else values[0]


def average(columns: Columns) -> Metrics:
    """Return the mean of each column as a float, ignoring None values; None for columns that are not real numbers."""
    return {name: _mean(column) for name, column in columns.items()}


def _mean(column: Column) -> float | None:
    """Return the mean of a column, NaN if it is empty, or None if its values are not real numbers."""
    if not isinstance(column, np.ndarray):
        values = [value for value in column if value is not None]
        if not values:
            return float("nan")
        column = _as_array(values)
        if not isinstance(column, np.ndarray):
            return None
    if column.dtype.kind == "c":
        return None
    # In float64: the mean of many float16 or float32 values would lose digits or overflow.
    return float(np.mean(column, dtype=np.float64)) if column.size else float("nan")
