"""`DataPosition`: where training is in its data, counted over all ranks.

It is independent of the number of ranks, so that a run can resume with another number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from determined.errors import InvalidCheckpointException


class PassShape(NamedTuple):
    """One pass over the data: `records` records in batches of `batch_size`.

    For a user-defined batch sampler, each of its batches counts as one record.
    """

    records: int
    batch_size: int
    drop_last: bool = False

    def batches(self, first_record: int = 0) -> int:
        """Return the number of batches in a pass from `first_record` to its end."""
        left = max(0, self.records - first_record)
        # Rounded up by the double negation: a short last batch counts unless it is dropped.
        return left // self.batch_size if self.drop_last else -(-left // self.batch_size)


class BatchSpan(NamedTuple):
    """A number of consecutive batches of all ranks that were trained with the same batch size."""

    batches: int
    batch_size: int


class DataPosition(NamedTuple):
    """The part of the endless sequence of batches that all ranks together have trained.

    The spans describe it exactly for any history of rank counts and batch sizes, also for samplers without a
    length. `ranks` is the latest number of ranks. `epoch_offset` must be added to the number of batches that each rank
    has trained before epochs are counted (see `offset_of_epochs`).
    """

    spans: tuple[BatchSpan, ...] = ()
    ranks: int = 1
    epoch_offset: int = 0

    @property
    def batches(self) -> int:
        """The number of batches trained by all ranks together."""
        return sum(span.batches for span in self.spans)

    @property
    def batch_size(self) -> int | None:
        """The latest batch size, or None before the first batch."""
        return self.spans[-1].batch_size if self.spans else None

    def moved(self, batches: int, batch_size: int) -> DataPosition:
        """Return the position after `batches` more batches of all ranks."""
        spans = self.spans
        if batches and self.batch_size == batch_size:
            # Spans of equal size are merged, so that the position in a checkpoint does not grow with each restart.
            batches += spans[-1].batches
            spans = spans[:-1]
        added = (BatchSpan(batches, batch_size),) if batches else ()
        return DataPosition((*spans, *added), self.ranks, self.epoch_offset)

    def back(self, batches: int) -> DataPosition:
        """Return the position `batches` batches earlier, which must lie within the last span."""
        if not batches:
            return self
        *before, last = self.spans
        assert batches <= last.batches
        left = (BatchSpan(last.batches - batches, last.batch_size),) if batches < last.batches else ()
        return DataPosition((*before, *left), self.ranks, self.epoch_offset)

    def place(self, records: int, drop_last: bool) -> tuple[int, int]:
        """Return the pass and the record in it that come next, if every pass has `records` records.

        After the last batch of a pass this is the end of that pass, not yet the start of the next one.
        """
        passes, record = 0, 0
        for span in self.spans:
            shape = PassShape(records, span.batch_size, drop_last)
            left, whole = span.batches, shape.batches()
            if left > shape.batches(record):
                # The rest of the pass in progress, and one batch of the next: complete passes after it follow by
                # division, and a position after the last batch of a pass stays in that pass.
                left -= shape.batches(record) + 1
                # At least 1, since drop_last with a batch size above
                # the number of records leaves passes without a batch.
                more, left = divmod(left, max(1, whole))
                passes, record, left = passes + 1 + more, 0, left + 1
            record = min(records, record + left * span.batch_size)
        return passes, record

    def as_dict(self) -> dict[str, Any]:
        """Return the position as JSON data for a checkpoint."""
        return {
            "ranks": self.ranks,
            "epoch_offset": self.epoch_offset,
            # The stored key is older than the name of the class, and checkpoints keep it.
            "stretches": [[span.batches, span.batch_size] for span in self.spans],
        }

    @classmethod
    def from_dict(cls, stored: Any, name: str) -> DataPosition:
        """Return the position that `as_dict` stored in the checkpoint `name`; raise if it is invalid."""
        try:
            spans = tuple(BatchSpan(_count(batches), _count(size)) for batches, size in stored["stretches"])
            return cls(spans, _count(stored["ranks"]), int(stored["epoch_offset"]))
        except (TypeError, ValueError, KeyError) as error:
            raise InvalidCheckpointException(
                f"checkpoint {name} cannot be read: its position in the data is {stored!r:.200}"
            ) from error


def _count(value: Any) -> int:
    """Return `value` if it is a positive integer, else raise ValueError."""
    # bool is a subclass of int.
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(value)
    return value


def offset_of_epochs(
    before: DataPosition, batches_trained: int, shape: PassShape, ranks: int, epoch_length: int
) -> int:
    """Return the number to add to the batches trained so that epochs of this run end at the end of a pass.

    With the same ranks and batch size as before it does not change. Otherwise the pass in progress is completed first,
    in as many batches of this run as that takes, and each later epoch has `epoch_length` batches.
    """
    # Nothing changed, or nothing was trained, so the offset is exact already.
    if not before.spans or (before.ranks, before.batch_size) == (ranks, shape.batch_size):
        return before.epoch_offset
    passes, record = before.place(shape.records, shape.drop_last)
    left = shape.batches(record)
    if left == 0:
        passes, left = passes + 1, shape.batches()
    # Rounded up: ranks that have no batch left in this pass begin the next one meanwhile.
    end_of_pass = batches_trained + -(-left // ranks)
    return (passes + 1) * epoch_length - end_of_pass
