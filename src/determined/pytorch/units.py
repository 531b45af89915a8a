"""`Batch` and `Epoch`: the units of training lengths and periods."""

from __future__ import annotations

import sys
from collections.abc import Container
from typing import Any


class TrainUnit:
    """A length or period: a number of batches or epochs, or a container of the points in time.

    An int is a length or a period (`Batch(100)`: every 100 batches). A container is a schedule (`Batch([1, 5, 10])`:
    after batches 1, 5 and 10); any object with `__contains__` can be one.
    """

    def __init__(self, value: int | Container[int]) -> None:
        self.value = value

    def should_stop(self, step_num: int) -> bool:
        """Return whether an action with this period is due after `step_num` batches or epochs."""
        if isinstance(self.value, int):
            # A period below 1 is due after every batch, as in earlier releases.
            return self.value < 1 or (step_num != 0 and step_num % self.value == 0)
        assert isinstance(self.value, Container), (
            f"{self!r} holds neither an int nor a container (a type with __contains__)"
        )
        return step_num in self.value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"

    def __eq__(self, other: object) -> bool:
        # Exact classes: 100 batches are not 100 epochs.
        return type(other) is type(self) and bool(self.value == other.value)

    def __hash__(self) -> int:
        # A container may not be hashable; equal units still have equal hashes.
        return hash((type(self), self.value if isinstance(self.value, int) else None))

    @staticmethod
    def _from_searcher_unit(length: int, unit: Any, global_batch_size: int | None = None) -> TrainUnit:
        """Return a searcher's length in batches, epochs, or records, which need the global batch size."""
        # Members of an enumeration or text: earlier releases passed either.
        name = str(getattr(unit, "name", unit)).lower()
        if name == "epochs":
            return Epoch(length)
        if name == "batches":
            return Batch(length)
        if name == "records":
            if not global_batch_size:
                raise ValueError("a length in records needs the hyperparameter global_batch_size")
            # At least one batch, because a length of 0 would mean that nothing is trained.
            return Batch(max(length // global_batch_size, 1))
        raise ValueError(f"a searcher's unit is batches, epochs or records, got {unit!r}")

    @staticmethod
    def _from_values(
        batches: int | None = None,
        records: int | None = None,
        epochs: int | None = None,
        global_batch_size: int | None = None,
    ) -> TrainUnit:
        """Return a configuration's period, of which exactly one value is given; less than 1 means never."""
        given = [value for value in (batches, records, epochs) if value is not None]
        if len(given) != 1:
            raise ValueError(
                f"give exactly one of batches, records and epochs, got "
                f"batches={batches!r}, records={records!r}, epochs={epochs!r}"
            )
        # In configurations 0 means never, unlike in `should_stop`; no counter reaches this number.
        value = given[0] if given[0] >= 1 else sys.maxsize
        if epochs is not None:
            return Epoch(value)
        if records is not None and value != sys.maxsize:
            assert global_batch_size, "a period in records needs the hyperparameter global_batch_size"
            value = max(value // global_batch_size, 1)
        return Batch(value)

    def _to_searcher_unit(self) -> Any:
        """Return the unit as a member of `core.Unit`, for programs of older releases."""
        # Imported late, because `core` is not needed for anything else here.
        from determined.core.searcher import Unit

        return Unit.BATCHES if isinstance(self, Batch) else Unit.EPOCHS


class Batch(TrainUnit):
    """A number of batches of one rank, counted from the first batch of the trial."""


class Epoch(TrainUnit):
    """A number of epochs: passes over the chief's training loader, counted by its length."""
