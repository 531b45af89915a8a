"""Tests of Batch, Epoch and TrainUnit."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from determined import pytorch
from determined.core.searcher import Unit
from determined.pytorch import Batch, Epoch, TrainUnit


class EvenOnes:
    """A class that only has `__contains__`."""

    def __contains__(self, step: object) -> bool:
        return isinstance(step, int) and step % 2 == 0

    def __repr__(self) -> str:
        return "even ones"


@pytest.mark.parametrize("kind", [Batch, Epoch, TrainUnit])
@pytest.mark.parametrize(
    ("value", "stops"),
    [
        (3, [3, 6]),
        (1, [1, 2, 3, 4, 5, 6]),
        (0, [0, 1, 2, 3, 4, 5, 6]),
        (-1, [0, 1, 2, 3, 4, 5, 6]),
        ([1, 5], [1, 5]),
        ((1, 5), [1, 5]),
        ({2, 4}, [2, 4]),
        ({2: "a", 4: "b"}, [2, 4]),
        ([], []),
        (range(0, 10, 4), [0, 4]),
        (True, [1, 2, 3, 4, 5, 6]),
        (EvenOnes(), [0, 2, 4, 6]),
    ],
    ids=repr,
)
def test_should_stop(kind: type[TrainUnit], value: Any, stops: list[int]) -> None:
    unit = kind(value)
    assert [step for step in range(7) if unit.should_stop(step)] == stops
    assert unit.value is value


def test_what_is_neither_number_nor_container_fails_at_use() -> None:
    with pytest.raises(TypeError):
        Batch("abc").should_stop(1)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        Batch(None).should_stop(1)  # type: ignore[arg-type]


def test_batch_and_epoch_are_siblings() -> None:
    assert issubclass(Batch, TrainUnit)
    assert issubclass(Epoch, TrainUnit)
    assert not issubclass(Batch, Epoch)
    assert not issubclass(Epoch, Batch)
    assert pytorch.Batch is Batch


def test_units_can_be_printed_and_compared() -> None:
    assert repr(Batch(3)) == "Batch(3)"
    assert repr(Epoch([1, 2])) == "Epoch([1, 2])"
    assert Batch(3) == Batch(3)
    assert Batch([1, 2]) == Batch([1, 2])
    assert Batch(3) != Batch(4)
    assert Batch(3) != Epoch(3)
    assert Batch(3) != 3


def test_equal_units_have_equal_hashes() -> None:
    assert len({Batch(3), Batch(3), Epoch(3)}) == 2
    # Equal sets that were filled in another order print differently.
    assert hash(Batch({0, 8})) == hash(Batch({8, 0}))
    assert Batch(True) == Batch(1)
    assert hash(Batch(True)) == hash(Batch(1))


@pytest.mark.parametrize(
    ("length", "unit", "batch_size", "expected"),
    [
        (5, Unit.EPOCHS, None, Epoch(5)),
        (5, Unit.BATCHES, None, Batch(5)),
        (100, Unit.RECORDS, 32, Batch(3)),
        (10, Unit.RECORDS, 32, Batch(1)),
        (5, "batches", None, Batch(5)),
    ],
)
def test_from_searcher_unit(length: int, unit: Any, batch_size: int | None, expected: TrainUnit) -> None:
    assert TrainUnit._from_searcher_unit(length, unit, batch_size) == expected


@pytest.mark.parametrize(("unit", "batch_size"), [(Unit.RECORDS, None), ("weeks", 1), (None, 1)])
def test_from_searcher_unit_refusals(unit: Any, batch_size: int | None) -> None:
    with pytest.raises(ValueError, match=r"records|unit"):
        TrainUnit._from_searcher_unit(5, unit, batch_size)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"batches": 7}, Batch(7)),
        ({"epochs": 7}, Epoch(7)),
        ({"records": 100, "global_batch_size": 32}, Batch(3)),
        ({"records": 3, "global_batch_size": 32}, Batch(1)),
        ({"batches": 0}, Batch(sys.maxsize)),
        ({"epochs": -1}, Epoch(sys.maxsize)),
        ({"records": 0, "global_batch_size": 32}, Batch(sys.maxsize)),
    ],
)
def test_from_config_values(values: dict[str, int], expected: TrainUnit) -> None:
    assert TrainUnit._from_values(**values) == expected


def test_from_config_values_refusals() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        TrainUnit._from_values()
    with pytest.raises(ValueError, match="exactly one"):
        TrainUnit._from_values(batches=1, epochs=1)
    with pytest.raises(AssertionError):
        TrainUnit._from_values(records=10)


def test_to_searcher_unit() -> None:
    assert Batch(1)._to_searcher_unit() is Unit.BATCHES
    assert Epoch(1)._to_searcher_unit() is Unit.EPOCHS
