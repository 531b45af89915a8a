"""`Validation`: evaluate all validation batches and reduce the metrics over batches and ranks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from determined.errors import InvalidExperimentException
from determined.pytorch.binding import bind, overridden
from determined.pytorch.callbacks import Callbacks
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.data.device import batch_mover
from determined.pytorch.data.torch_loader import OwnLoader
from determined.pytorch.data.trial_loaders import end
from determined.pytorch.metrics.batch_metrics import BatchMetrics, Columns, Metrics, columns_of, rows_of
from determined.pytorch.metrics.reducer import Reducer, as_numpy, reducers_by_name, simple_reduce
from determined.pytorch.ranks import data_parallel
from determined.pytorch.run.stopping import Stopping
from determined.pytorch.trial import PyTorchTrial
from determined.sentences import counted

logger = logging.getLogger("determined.pytorch")


class _GivenUp(Exception):
    """Raised to abort a validation because training must stop; it is repeated after a resume."""


@dataclass
class RankResult:
    """The contribution of one rank: its metrics reduced over its own batches, and their weight."""

    metrics: Metrics = field(default_factory=dict)
    reducers: dict[str, Reducer] = field(default_factory=dict)
    weight: float = 0
    batches: int = 0
    records: int = 0
    parts: list[Any] = field(default_factory=list)
    given_up: bool = False


class Validation:
    """Validates a trial with `evaluate_batch` on all ranks, or with `evaluate_full_dataset` on the chief."""

    def __init__(
        self,
        trial: PyTorchTrial,
        context: PyTorchTrialContext,
        callbacks: Callbacks,
        loader: Any,
        evaluate: Callable[..., Any],
        *,
        full_dataset: bool,
        test_mode: bool,
        stopping: Stopping,
    ) -> None:
        self.stopping = stopping
        self.trial = trial
        self.context = context
        self.callbacks = callbacks
        self.loader = loader
        self.evaluate = evaluate
        self.full_dataset = full_dataset
        self.test_mode = test_mode
        own_length = overridden(trial, "get_batch_length", PyTorchTrial)
        self._count_always = own_length or context.experimental._weight_by_records

    @torch.no_grad()
    def run(self) -> Metrics | None:
        """Return the validation metrics, the same on every rank, or None if a stop request aborted the validation."""
        started = time.perf_counter()
        # Values of a training workload must not mix with those of the validation.
        self.context.reset_reducers()
        data_parallel.sync_buffers(self.context.models)
        for model in self.context.models:
            model.eval()
        self.callbacks.call("on_validation_step_start")
        self.callbacks.call("on_validation_start")

        mine = self._evaluate_full_dataset() if self.full_dataset else self._evaluate_batches()
        # On every rank, also one without a batch: `allgather` is a collective, and reducers expect one part per rank.
        mine.parts = self.context._reducers.per_slot(for_training=False)
        ranks: list[RankResult] = self.context.distributed.allgather(mine)
        # Any rank that gave up aborts the validation on all: metrics of a part of the data must not be reported.
        if any(rank.given_up for rank in ranks):
            return None

        metrics = dict(ranks[0].metrics) if self.full_dataset else self._reduce_over_ranks(ranks)
        selected = self.context._reducers.selected(for_training=False)
        if selected:
            metrics.update(self.context.run_cross_slot_reduction(selected, [rank.parts for rank in ranks]))

        self.callbacks.call("on_validation_step_end", metrics)
        self.callbacks.call("on_validation_end", metrics)
        if not self.full_dataset:
            seconds = time.perf_counter() - started
            batches = sum(rank.batches for rank in ranks)
            is_known = all(rank.records for rank in ranks if rank.batches)  # ranks that do not log INFO do not count
            records = f"{counted(sum(rank.records for rank in ranks), 'record')} in " if is_known else ""
            logger.info("validated %s%s in %.2f s", records, counted(batches, "batch", "batches"), seconds)
        return metrics

    def _evaluate_full_dataset(self) -> RankResult:
        """Run `evaluate_full_dataset` on the chief; other ranks contribute nothing."""
        if self.context.distributed.rank != 0:
            return RankResult()
        metrics = self.evaluate(self.loader)
        _check_is_dict(metrics, "evaluate_full_dataset")
        metrics = {name: as_numpy(value) for name, value in metrics.items()}
        self.context._not_numbers.check_values(metrics, "evaluate_full_dataset()")
        return RankResult(metrics, weight=1)

    def _evaluate_batches(self) -> RankResult:
        """Run `evaluate_batch` on this rank's batches and reduce the metrics over them."""
        self.callbacks.call("on_validation_epoch_start")
        try:
            kept, lengths = self._evaluate_all()
        # Not raised here: the other ranks wait in the gather for the result of this rank.
        except _GivenUp:
            return RankResult(given_up=True)
        columns = _columns(kept)
        if not self.context.experimental._keep_metric_shapes:
            arrays = {name: column for name, column in columns.items() if isinstance(column, np.ndarray)}
            self.context._not_numbers.check(arrays, "evaluate_batch()")  # other columns raise an error below
        if self.callbacks.overrides("on_validation_epoch_end"):
            self.callbacks.call("on_validation_epoch_end", rows_of(columns, kept))
        # A rank without batches has no metric names, which would not match a dict of reducers.
        by_name = reducers_by_name(self.trial.evaluation_reducer(), list(columns)) if kept else {}
        weights = lengths if self.context.experimental._weight_by_records else None
        return RankResult(
            metrics={name: self._reduce(name, by_name[name], column, weights) for name, column in columns.items()},
            reducers=by_name,
            weight=sum(lengths) if weights is not None else len(kept),
            batches=len(kept),
            records=sum(lengths),
        )

    def _evaluate_all(self) -> tuple[BatchMetrics, list[int]]:
        """Evaluate all batches of the loader, and end its workers after an error."""
        batches = iter(self.loader)
        try:
            return self._evaluate_each(batches)
        except BaseException:
            # A stored exception keeps the frame and with it the iterator, whose worker processes would stay alive.
            end(batches, own=isinstance(self.loader, OwnLoader))
            raise

    def _evaluate_each(self, batches: Iterator[Any]) -> tuple[BatchMetrics, list[int]]:
        """Return the metrics and the number of records of each batch; raise _GivenUp after a stop request."""
        evaluate, move = self.evaluate, batch_mover(self.context)
        count = self._count_always or logger.isEnabledFor(logging.INFO)
        kept = BatchMetrics()
        lengths: list[int] = []
        keep, stopping = kept.keep, self.stopping
        for batch_idx, batch in enumerate(batches):
            if move is not None:
                batch = move(batch)
            if count:
                # Before the program's method, which may change the batch.
                lengths.append(self._length(batch))
            metrics = evaluate(batch, batch_idx)
            if type(metrics) is not dict:
                _check_is_dict(metrics, "evaluate_batch")
            keep(metrics)
            if self.test_mode:
                break
            # After every batch, as in training: a validation can take longer than the time that a SIGTERM leaves.
            if stopping.raised:
                raise _GivenUp
        return kept, lengths

    def _length(self, batch: Any) -> int:
        """Return the number of records in a batch; 0 if it is unknown and only a log line needs it."""
        if self._count_always:
            return self.trial.get_batch_length(batch)
        try:
            return self.trial.get_batch_length(batch)
        except (TypeError, ValueError):
            # Only the log line needs the number.
            return 0

    def _reduce(self, name: str, reducer: Reducer, column: Any, weights: Sequence[float] | None) -> Any:
        """Reduce one metric over this rank's batches; raise TypeError if its values are not numbers."""
        if not isinstance(column, np.ndarray):
            odd = next((value for value in column if not isinstance(value, (int, float, np.ndarray))), column[0])
            raise TypeError(
                f"evaluate_batch() returned the metric {name!r} as {type(odd).__name__} ({odd!r:.60}): metrics must be "
                "numbers or tensors; collect anything else in a callback or a custom reducer"
            )
        if self.context.experimental._keep_metric_shapes and column.ndim > 1:
            return _reduce_along_batches(reducer, column, weights)
        if weights is None or reducer is not Reducer.AVG:
            return simple_reduce(reducer, column)
        # A vector becomes one number per batch first, because there is one weight per batch.
        return simple_reduce(reducer, column.reshape(len(column), -1).mean(axis=1), weights)

    def _reduce_over_ranks(self, ranks: Sequence[RankResult]) -> Metrics:
        """Reduce the metrics of all ranks that had batches; raise if there are none or their names differ."""
        present = [rank for rank in ranks if rank.batches]
        if not present:
            raise RuntimeError(
                "validation saw no batch: the loader that build_validation_data_loader() returned is empty"
            )
        # No second reduction: averaging a single value with its weight could change its last bit.
        if len(present) == 1:
            return dict(present[0].metrics)
        names = present[0].metrics.keys()
        for rank in present:
            if rank.metrics.keys() != names:
                raise ValueError(
                    "evaluate_batch() must return the same metric names on every rank: "
                    f"{sorted(map(str, names))} on one, {sorted(map(str, rank.metrics))} on another"
                )
        weights = [rank.weight for rank in present]
        metrics: Metrics = {}
        for name, reducer in present[0].reducers.items():
            values = np.stack([rank.metrics[name] for rank in present])
            if values.ndim > 1:
                metrics[name] = _reduce_along_batches(reducer, values, weights)
            else:
                # Weights only apply to averages; the sum, maximum and minimum of ranks are those of their batches.
                metrics[name] = simple_reduce(reducer, values, weights if reducer is Reducer.AVG else None)
        return metrics


def _columns(kept: BatchMetrics) -> Columns:
    """Return the metrics of validation batches by name; ValueError if their names differ."""
    return columns_of(kept, "evaluate_batch()", error=ValueError)


def _reduce_along_batches(reducer: Reducer, values: Any, weights: Sequence[float] | None) -> Any:
    """Reduce the first axis only, so that the shape of each value is kept."""
    if reducer is Reducer.AVG:
        return np.average(values, axis=0, weights=weights)
    along: Any = {Reducer.SUM: np.sum, Reducer.MAX: np.max, Reducer.MIN: np.min}[reducer]
    return along(values, axis=0)


def _check_is_dict(metrics: Any, method: str) -> None:
    """Raise TypeError, naming the method, if it did not return a dict."""
    if not isinstance(metrics, dict):
        raise TypeError(f"{method}() must return a dict of metrics, got {type(metrics).__name__}: {metrics!r:.80}")


def evaluate_method(trial: PyTorchTrial) -> str:
    """Return the name of the evaluate method that the trial overrides; raise unless it is exactly one."""
    own = [name for name in ("evaluate_batch", "evaluate_full_dataset") if overridden(trial, name, PyTorchTrial)]
    if len(own) != 1:
        raise InvalidExperimentException(
            f"{type(trial).__name__} must override one of evaluate_batch and evaluate_full_dataset, but it overrides "
            f"{'both' if own else 'neither'}"
        )
    return own[0]


def bind_evaluate(trial: PyTorchTrial, method: str) -> Callable[..., Any]:
    """Return the trial's evaluate method in the form in which `Validation` calls it."""
    if method == "evaluate_full_dataset":
        return bind(trial.evaluate_full_dataset, ["data_loader"])
    return bind(trial.evaluate_batch, ["batch", "batch_idx"], optional="batch_idx")
