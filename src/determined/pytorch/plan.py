"""Compute in batches how long to train and when to report, validate and checkpoint."""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Collection, Iterable, Iterator
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

from determined.info import TrialInfo
from determined.pytorch.units import Batch, Epoch, TrainUnit

if TYPE_CHECKING:
    from determined.pytorch.context import PyTorchTrialContext


class BoundaryType(enum.Enum):
    """The kinds of boundaries at which the loop interrupts training to do something else."""

    CHECKPOINT = "CHECKPOINT"
    REPORT = "REPORT"
    VALIDATE = "VALIDATE"
    TRAIN = "TRAIN"


def batches_of(unit: TrainUnit, epoch_length: int, epoch_offset: int = 0) -> int:
    """Return a length in batches."""
    assert isinstance(unit.value, int)
    return unit.value * epoch_length - epoch_offset if isinstance(unit, Epoch) else unit.value


def is_due(unit: TrainUnit | None, batches: int, epoch_length: int, epoch_offset: int = 0) -> bool:
    """Return whether the period `unit` is due after `batches` batches."""
    # `should_stop(0)` can be True, for example for a schedule that contains 0, and batch 0 is no boundary.
    if unit is None or batches == 0:
        return False
    if isinstance(unit, Epoch):
        epochs, within = divmod(batches + epoch_offset, epoch_length)
        return within == 0 and unit.should_stop(epochs)
    return unit.should_stop(batches)


def next_due(unit: TrainUnit | None, batches: int, epoch_length: int, limit: int, epoch_offset: int = 0) -> int:
    """Return the first batch count after `batches` at which `unit` is due, or `limit` if there is none before it."""
    if unit is None:
        return limit
    if epoch_offset and isinstance(unit, Epoch):
        shifted = next_due(unit, batches + epoch_offset, epoch_length, limit + epoch_offset)
        return shifted - epoch_offset
    step = epoch_length if isinstance(unit, Epoch) else 1
    if isinstance(unit.value, int):
        # A period below 1 is due after every batch, as in `TrainUnit.should_stop`.
        period = max(unit.value, 1) * step
        return min(limit, (batches // period + 1) * period)
    # The limit shrinks with each call in `next_stop`, so that a schedule is searched only up to the nearest boundary.
    for count in _candidates(unit.value, batches // step + 1, limit // step):
        if unit.should_stop(count):
            return count * step
    return limit


def _candidates(schedule: Any, first: int, last: int) -> Iterable[int]:
    """Return the counts from `first` to `last` to test against a schedule: only a few if its contents are known."""
    if isinstance(schedule, range):
        # A range can count downwards, and the first candidate is needed.
        upwards = schedule if schedule.step > 0 else schedule[::-1]
        # The number of steps from the start of the range to `first`, rounded up by the double negation.
        passed = max(0, -((upwards.start - first) // upwards.step))
        return [count for count in upwards[passed : passed + 1] if count <= last]
    # A longer collection is not searched: testing every count up to `last` is then cheaper than sorting it.
    if isinstance(schedule, Collection) and len(schedule) <= last - first:
        # A schedule may contain anything; text or None can never equal a count.
        numbers: list[Any] = [count for count in schedule if isinstance(count, Real)]
        return sorted({int(count) for count in numbers if first <= count <= last})
    return range(first, last + 1)


def comparison_batches(
    trial: TrialInfo, context: PyTorchTrialContext, epoch_length: int, epoch_offset: int = 0
) -> tuple[int, ...]:
    """Return the numbers of batches after which the searcher compares the trial with others, in ascending order.

    The trial is validated at these batches, so that all trials are compared after the same amount of training. The
    result is empty if the searcher compares no trials, or measures time by a metric that only the trial knows.
    """
    if trial._time_metric == "batches":
        # Rungs can be fractions. Rounded up, because a trial must have trained at least that far when it is compared.
        counts = [math.ceil(rung) for rung in trial._rungs]
    elif trial._time_metric == "epochs":
        counts = [math.ceil(rung) * epoch_length - epoch_offset for rung in trial._rungs]
    elif trial._time_metric == "records":
        counts = [math.ceil(rung / context.get_global_batch_size()) for rung in trial._rungs]
    else:
        counts = []
    # Sorted and unique: rungs that are close together can round to the same batch.
    return tuple(sorted(count for count in set(counts) if count > 0))


DEFAULT_REPORTING_PERIOD = Batch(100)  # as in all releases of Determined


class Plan(NamedTuple):
    """The length of training and its periods, for epochs of `epoch_length` batches.

    `epoch_offset` is added to a number of batches before epochs are counted. It is not 0 if some of the batches were
    trained with another number of ranks, whose epochs had another length.
    """

    max_length: TrainUnit
    epoch_length: int
    validation_period: TrainUnit | None = None
    checkpoint_period: TrainUnit | None = None
    reporting_period: TrainUnit = DEFAULT_REPORTING_PERIOD
    epoch_offset: int = 0
    comparisons: tuple[int, ...] = ()  # batches at which the searcher compares trials; each is validated
    begins_at: int = 0  # the batch from which the length is counted; not 0 after an earlier `fit` in the same context
    unfinished_end: int = 0  # the last batch of an interrupted `fit`, whose length is finished first

    @property
    def last_batch(self) -> int:
        """The number of batches at the end of training, counted from batch 0."""
        # A second `fit` may give less than what an interrupted one had left, and that length is finished.
        return max(self.unfinished_end, self.given_end)

    @property
    def given_end(self) -> int:
        """The number of batches at the end of the length that was given to `fit`."""
        if self.begins_at:
            # Without the offset: the length is counted in complete epochs of this run, from the batch where it begins.
            return self.begins_at + max(0, batches_of(self.max_length, self.epoch_length))
        return max(0, batches_of(self.max_length, self.epoch_length, self.epoch_offset))

    def epoch_of(self, batches: int) -> tuple[int, int]:
        """Return the epoch in progress after `batches` batches, and how many batches of it are done."""
        return divmod(batches + self.epoch_offset, self.epoch_length)

    def finished(self, batches: int) -> bool:
        """Return whether training is complete after `batches` batches."""
        return batches >= self.last_batch

    def next_stop(self, batches: int) -> int:
        """Return the next batch count at which anything is due, so that the loop compares with one number only."""
        stop = self.last_batch
        for unit in (self.reporting_period, self.validation_period, self.checkpoint_period):
            stop = next_due(unit, batches, self.epoch_length, stop, self.epoch_offset)
        return self._before_comparison(batches, stop)

    def due(self, batches: int) -> Iterator[BoundaryType]:
        """Yield what is due after `batches` batches, in the order in which it is done."""
        # This order of actions is that of Determined 0.38.1; callbacks can observe it.
        if self.finished(batches):
            yield BoundaryType.TRAIN
        # Validation comes before the checkpoint, so that the
        # checkpoint contains it and it is not repeated after a resume.
        if batches in self.comparisons or is_due(self.validation_period, batches, self.epoch_length, self.epoch_offset):
            yield BoundaryType.VALIDATE
        if is_due(self.checkpoint_period, batches, self.epoch_length, self.epoch_offset):
            yield BoundaryType.CHECKPOINT
        if is_due(self.reporting_period, batches, self.epoch_length, self.epoch_offset):
            yield BoundaryType.REPORT

    def next_validation(self, batches: int) -> int:
        """Return the batch count of the next validation; the last one is at the end of training."""
        due = next_due(self.validation_period, batches, self.epoch_length, self.last_batch, self.epoch_offset)
        return self._before_comparison(batches, due)

    def _before_comparison(self, batches: int, stop: int) -> int:
        """Return the first comparison between `batches` and `stop`, or `stop`."""
        return min((batch for batch in self.comparisons if batches < batch < stop), default=stop)

    def progress(self, batches: int) -> float:
        """Return the fraction of the training length that is done, from 0 to 1."""
        # A second `fit` begins at its own 0 %.
        length = self.last_batch - self.begins_at
        return min(1.0, (batches - self.begins_at) / length) if length else 1.0


UNKNOWN_LENGTH = sys.maxsize
"""The epoch length of a loader without a length: a single endless epoch."""
