"""The next step at which the loop stops: the computation agrees with a check after every batch."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from determined import pytorch
from determined.pytorch import Batch, Epoch
from determined.pytorch.plan import BoundaryType, Plan, next_due
from tests.helpers.trials import EPOCH_LENGTH, LineTrial, Recorder, fit, with_callbacks

moments = st.integers(-3, 60)
values = st.one_of(
    st.integers(-2, 20),
    st.lists(moments, max_size=6),
    st.lists(moments | st.floats(-3, 60) | st.text(max_size=2) | st.none(), max_size=6),
    st.sets(moments, max_size=6),
    st.frozensets(moments, max_size=6),
    st.builds(tuple, st.lists(moments, max_size=6)),
    st.dictionaries(moments, st.none(), max_size=6),
    st.builds(range, moments, moments, st.integers(1, 9)),
    st.builds(range, moments, moments, st.integers(-9, -1)),
)
units = st.one_of(st.builds(Batch, values), st.builds(Epoch, values))


def due_by_asking(unit: Any, batches: int, epoch_length: int) -> bool:
    if unit is None:
        return False
    if isinstance(unit, Epoch):
        return batches % epoch_length == 0 and unit.should_stop(batches // epoch_length)
    return bool(unit.should_stop(batches))


@settings(max_examples=500)
@given(
    units,
    st.none() | units,
    st.none() | units,
    st.integers(1, 7),
    st.one_of(st.builds(Batch, st.integers(0, 45)), st.builds(Epoch, st.integers(0, 9))),
    st.integers(0, 40),
)
def test_next_stop_is_what_asking_after_every_batch_finds(
    report: Any, validate: Any, checkpoint: Any, epoch_length: int, length: Any, batches: int
) -> None:
    plan = Plan(length, epoch_length, validate, checkpoint, report)
    last = length.value * (epoch_length if isinstance(length, Epoch) else 1)
    assert plan.last_batch == last
    assert plan.finished(batches) == (batches >= last)
    periods = [
        (BoundaryType.VALIDATE, validate),
        (BoundaryType.CHECKPOINT, checkpoint),
        (BoundaryType.REPORT, report),
    ]
    if batches < last:
        expected = next(
            b
            for b in range(batches + 1, last + 1)
            if b == last or any(due_by_asking(unit, b, epoch_length) for _, unit in periods)
        )
        assert plan.next_stop(batches) == expected
        found = [BoundaryType.TRAIN] if expected == last else []
        found += [kind for kind, unit in periods if due_by_asking(unit, expected, epoch_length)]
        assert list(plan.due(expected)) == found


def test_sparse_schedules_far_away_cost_nothing() -> None:
    """One number is requested per report, and once a second for the progress line."""
    far = 10**15
    for schedule in (
        [10, far],
        {10, far},
        range(10, far + 1, far - 10),
        (far, 10),
        np.array([far, 10]),
        {far: 0, 10: 0},
    ):
        unit = Batch(schedule)
        assert next_due(unit, 0, 1, 10**16) == 10
        assert next_due(unit, 10, 1, 10**16) == far
        assert next_due(unit, far, 1, 10**16) == 10**16
    steps: list[Any] = [np.int64(7), 5.0, "x"]
    assert next_due(Batch(steps), 5, 1, 100) == 7
    assert next_due(Batch([5]), 5, 1, 10**30) == 10**30


def test_an_endless_epoch_never_ends() -> None:
    plan = Plan(Batch(50), sys.maxsize, Epoch(1), Epoch([1, 2]), Epoch(2))
    assert plan.next_stop(0) == 50
    assert list(plan.due(50)) == [BoundaryType.TRAIN]


def test_a_negative_length_ends_at_once() -> None:
    assert Plan(Batch(-5), 3).finished(0)
    assert Plan(Batch(0), 3).progress(0) == 1.0


def test_boundary_types_are_named_like_their_values() -> None:
    assert {kind.name: kind.value for kind in pytorch._TrainBoundaryType} == {
        name: name for name in ("CHECKPOINT", "REPORT", "VALIDATE", "TRAIN")
    }


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        (Batch(4), [4, 8, 10]),
        (Batch([1, 5]), [1, 5, 10]),
        (Batch(range(3, 9, 3)), [3, 6, 10]),
        (Batch({2}), [2, 10]),
        (Batch([]), [10]),
        (Epoch(1), [6, 10]),
        (Epoch([1]), [6, 10]),
        (Batch(0), list(range(1, 11))),
    ],
    ids=repr,
)
def test_the_loop_validates_when_due(period: Any, expected: list[int]) -> None:
    assert EPOCH_LENGTH == 6
    validated: list[int] = []

    class Noting(Recorder):
        def on_validation_end(self, metrics: dict[str, Any]) -> None:
            validated.append(len(trial_class.indices))

    class Counting(LineTrial):
        indices: list[int] = []

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            self.indices.append(batch_idx)
            return super().train_batch(batch, epoch_idx, batch_idx)

    trial_class = with_callbacks(Noting(), base=Counting)
    fit(trial_class, max_length=Batch(10), validation_period=period)
    assert validated == expected
