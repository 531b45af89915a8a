"""Where training is in its data: counted over all ranks, so that another number of them can go on from there."""

from __future__ import annotations

from typing import Any, NamedTuple

from determined.errors import InvalidCheckpointException


class PassShape(NamedTuple):
    """One pass over the data: so many records, cut into batches of `batch_size`.

    Of a sampler whose batches are the user's own, the "records" are those batches, one in each batch.
    """

    records: int
    batch_size: int
    drop_last: bool = False

    def batches(self, first_record: int = 0) -> int:
        """The batches of a pass from `first_record` on."""
        left = max(0, self.records - first_record)
        return left // self.batch_size if self.drop_last else -(-left // self.batch_size)


class Stretch(NamedTuple):
    """Batches of all ranks that were trained one after the other with one batch size."""

    batches: int
    batch_size: int


class DataPosition(NamedTuple):
    """What has been taken from the endless sequence of batches that all ranks together train.

    The stretches say it exactly, whatever numbers of ranks and batch sizes there were, and for samplers without a
    length, too. `ranks` is how many there were last, and `epoch_offset` is what must be added to the number of
    batches that each rank has trained before epochs are counted in it (see `offset_of_epochs`).
    """

    stretches: tuple[Stretch, ...] = ()
    ranks: int = 1
    epoch_offset: int = 0

    @property
    def batches(self) -> int:
        return sum(stretch.batches for stretch in self.stretches)

    @property
    def batch_size(self) -> int | None:
        """The last one in use."""
        return self.stretches[-1].batch_size if self.stretches else None

    def moved(self, batches: int, batch_size: int) -> DataPosition:
        """The position after `batches` more of all ranks."""
        stretches = self.stretches
        if batches and self.batch_size == batch_size:
            batches += stretches[-1].batches
            stretches = stretches[:-1]
        added = (Stretch(batches, batch_size),) if batches else ()
        return DataPosition((*stretches, *added), self.ranks, self.epoch_offset)

    def back(self, batches: int) -> DataPosition:
        """The position a few batches ago, within the last stretch."""
        if not batches:
            return self
        *before, last = self.stretches
        assert batches <= last.batches
        left = (Stretch(last.batches - batches, last.batch_size),) if batches < last.batches else ()
        return DataPosition((*before, *left), self.ranks, self.epoch_offset)

    def place(self, records: int, drop_last: bool) -> tuple[int, int]:
        """The pass and the record in it that come next, where every pass has so many records.

        After the last batch of a pass this is the end of that pass, not yet the beginning of the next one.
        """
        passes, record = 0, 0
        for stretch in self.stretches:
            shape = PassShape(records, stretch.batch_size, drop_last)
            left, whole = stretch.batches, shape.batches()
            if left > shape.batches(record):
                left -= shape.batches(record) + 1
                more, left = divmod(left, max(1, whole))
                passes, record, left = passes + 1 + more, 0, left + 1
            record = min(records, record + left * stretch.batch_size)
        return passes, record

    def as_dict(self) -> dict[str, Any]:
        return {
            "ranks": self.ranks,
            "epoch_offset": self.epoch_offset,
            "stretches": [[stretch.batches, stretch.batch_size] for stretch in self.stretches],
        }

    @classmethod
    def from_dict(cls, stored: Any, name: str) -> DataPosition:
        """What `as_dict` gave, out of the checkpoint `name`."""
        try:
            stretches = tuple(Stretch(_count(batches), _count(size)) for batches, size in stored["stretches"])
            return cls(stretches, _count(stored["ranks"]), int(stored["epoch_offset"]))
        except (TypeError, ValueError, KeyError) as error:
            raise InvalidCheckpointException(
                f"checkpoint {name} cannot be read: its position in the data is {stored!r:.200}"
            ) from error


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(value)
    return value


def offset_of_epochs(
    before: DataPosition, batches_trained: int, shape: PassShape, ranks: int, epoch_length: int
) -> int:
    """What to add to the batches trained so that epochs, counted in this run's batches, end where passes do.

    With the same ranks and batch size nothing changes. Otherwise the pass that is under way is trained to its end
    first, however many batches of this run that takes, and every further epoch has `epoch_length` of them.
    """
    if not before.stretches or (before.ranks, before.batch_size) == (ranks, shape.batch_size):
        return before.epoch_offset
    passes, record = before.place(shape.records, shape.drop_last)
    left = shape.batches(record)
    if left == 0:
        passes, left = passes + 1, shape.batches()
    end_of_pass = batches_trained + -(-left // ranks)
    return (passes + 1) * epoch_length - end_of_pass
