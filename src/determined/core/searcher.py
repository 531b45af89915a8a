"""`SearcherContext`: the length of training as operations, the interface that older scripts use."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence

from determined.config.length import Length
from determined.config.metric_values import number
from determined.core.distributed import DistributedContext
from determined.core.preempt import PreemptContext
from determined.core.train import TrainContext


class Unit(enum.Enum):
    """The unit of a length."""

    EPOCHS = "UNIT_EPOCHS"
    RECORDS = "UNIT_RECORDS"
    BATCHES = "UNIT_BATCHES"


class SearcherMode(enum.Enum):
    """Whether all ranks iterate over the operations, or only the chief."""

    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHIEF_ONLY"


class SearcherOperation:
    """Train until `length` is reached, counted from the beginning of the trial; then report the metric."""

    def __init__(self, length: int, is_chief: bool, train: TrainContext) -> None:
        self._length = length
        self._is_chief = is_chief
        self._train = train
        self._completed = False

    @property
    def length(self) -> int:
        """The length to train to, counted from the first step of the trial."""
        return self._length

    def report_progress(self, length: float) -> None:
        """Report how far the training is, in the unit of `length`."""
        self._chief_only("report_progress")
        if isinstance(length, bool) or not isinstance(length, (int, float)) or not 0 <= length < math.inf:
            raise ValueError(f"length must be a number from 0 on, got {length!r}")
        if self._completed and length != self._length:
            raise RuntimeError("report_progress() called after report_completed().")
        # A program may train beyond the length, for example to the end of an epoch.
        self._train.report_progress(1.0 if length >= self._length else length / self._length)

    def report_completed(self, searcher_metric: float) -> None:
        """Report the metric at the end of the operation. Call this exactly once."""
        self._chief_only("report_completed")
        metric = number(searcher_metric)
        if metric is None:
            raise TypeError(f"searcher_metric must be a number, got {searcher_metric!r}")
        if self._completed:
            raise RuntimeError("report_completed was called twice for the same operation")
        self._completed = True
        self._train._complete_length(self._length, metric)

    def _chief_only(self, method: str) -> None:
        """Raise RuntimeError on every rank but the chief."""
        if not self._is_chief:
            raise RuntimeError(f"only the chief may call {method}")


class SearcherContext:
    """Yields the operations of a trial.

    There is one operation of the configured length. If the searcher compares trials at intermediate lengths, there is
    one up to each comparison, until the searcher stops the trial.
    """

    def __init__(
        self,
        distributed: DistributedContext,
        train: TrainContext,
        preempt: PreemptContext,
        length: Length | None,
        rungs: Sequence[float] = (),
    ) -> None:
        self._distributed = distributed
        self._train = train
        self._preempt = preempt
        self._length = length
        self._rungs = rungs

    def operations(
        self, searcher_mode: SearcherMode = SearcherMode.WorkersAskChief, auto_ack: bool = True
    ) -> Iterator[SearcherOperation]:
        """Yield the operations of this trial; each must be completed before the next one is requested."""
        length = self._configured().value
        is_chief = self._distributed.rank == 0
        if searcher_mode is SearcherMode.ChiefOnly and not is_chief:
            raise RuntimeError("with SearcherMode.ChiefOnly only the chief may iterate over the operations")
        return self._operations(length, is_chief)

    def acknowledge_out_of_ops(self) -> None:
        """Do nothing; kept for older scripts."""

    def get_configured_units(self) -> Unit | None:
        """Return the unit of the configured length; None for a number without a unit."""
        unit = self._configured().unit
        return None if unit is None else Unit[unit.upper()]

    def _operations(self, length: int, is_chief: bool) -> Iterator[SearcherOperation]:
        """Yield one operation per comparison and a last one; stop early if the searcher has stopped the trial."""
        if is_chief:
            self._train._follow_operations()
        # Rungs may be fractions, and programs count whole units; the last operation always ends at the configured
        # length.
        for until in [*(math.ceil(rung) for rung in self._rungs if rung < length), length]:
            operation = SearcherOperation(until, is_chief, self._train)
            yield operation
            if is_chief and not operation._completed:
                raise RuntimeError("the searcher operation was left without report_completed()")
            # Only the chief knows of a stop; a rank that did not leave with it would wait in the next collective.
            if until < length and self._distributed.broadcast(is_chief and self._preempt.pending()):
                return

    def _configured(self) -> Length:
        """Return the configured length; raise ValueError if there is none."""
        if self._length is None:
            raise ValueError("the searcher context needs searcher.max_length in the experiment configuration")
        return self._length
