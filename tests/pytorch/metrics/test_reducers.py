"""Reducers: `Reducer`, `MetricReducer`, functions; on one rank and on several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from determined import pytorch
from determined.pytorch import Reducer
from tests.helpers.ranks import run_ranks
from tests.helpers.trials import LineTrial, Recorder, fit, metrics, with_callbacks

VALUES = [0.25, 0.5, 0.75, 1, 25.5, 1.9]
WEIGHTS = [1, 2, 5, 4, 5, 6]


def test_reducers_have_the_numbers_of_all_releases() -> None:
    assert {reducer.name: reducer.value for reducer in Reducer} == {"AVG": 1, "SUM": 2, "MAX": 3, "MIN": 4}


@pytest.mark.parametrize(
    ("reducer", "expected"), [(Reducer.AVG, 4.98), (Reducer.SUM, 29.9), (Reducer.MIN, 0.25), (Reducer.MAX, 25.5)]
)
def test_reference_vector(reducer: Reducer, expected: float) -> None:
    assert pytorch._simple_reduce_metrics(reducer, VALUES) == pytest.approx(expected, abs=0.005)
    assert pytorch._simple_reduce_metrics(reducer, np.array(VALUES)) == pytest.approx(expected, abs=0.005)


def test_reference_vector_with_weights() -> None:
    assert pytorch._simple_reduce_metrics(Reducer.AVG, VALUES, WEIGHTS) == pytest.approx(6.43, abs=0.005)
    with pytest.raises(RuntimeError, match="weights"):
        pytorch._simple_reduce_metrics(Reducer.AVG, VALUES, WEIGHTS[:-1])


@pytest.mark.parametrize("reducer", list(Reducer))
def test_dtypes_are_numpys(reducer: Reducer) -> None:
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    for dtype in (np.float16, np.float32, np.float64):
        reduced = pytorch._simple_reduce_metrics(reducer, values.astype(dtype))
        assert np.ndim(reduced) == 0
        assert reduced.dtype == dtype
    assert isinstance(pytorch._simple_reduce_metrics(reducer, [1.0, 2.0]), np.float64)


def test_sums_run_in_double_precision() -> None:
    """0.1 a million times: in float32 the sum would be wrong in the third digit."""
    values = np.full(1_000_000, 0.1, dtype=np.float32).reshape(-1, 1)
    exact = float(np.float32(0.1))
    assert pytorch._simple_reduce_metrics(Reducer.SUM, values) == np.float32(exact * 1_000_000)
    assert pytorch._simple_reduce_metrics(Reducer.AVG, values) == np.float32(exact)
    big = np.array([2.0**24, 1.0, 1.0], dtype=np.float32)
    assert pytorch._simple_reduce_metrics(Reducer.SUM, big) == np.float32(2.0**24 + 2)


@pytest.mark.parametrize("values", [["a"], [None], [{}]])
def test_what_is_no_number_is_refused(values: Any) -> None:
    with pytest.raises(TypeError):
        pytorch._simple_reduce_metrics(Reducer.AVG, values)


# Functions


@pytest.mark.parametrize("ranks", range(1, 10))
def test_values_of_all_ranks_come_in_their_original_order(ranks: int) -> None:
    """47 records in batches of 2, distributed to the ranks, one update for each batch."""
    records = list(range(47))
    batches = [records[at : at + 2] for at in range(0, 47, 2)]
    got: list[Any] = []
    parts = []
    for rank in range(ranks):
        context = pytorch._PyTorchReducerContext()
        reducer: Any = context.wrap_reducer(got.append, name="all")
        assert isinstance(reducer, pytorch._SimpleReducer)
        reducer.reset()
        for batch in batches[rank::ranks]:
            reducer.update(batch)
        parts.append(reducer.per_slot_reduce())
    reducer.cross_slot_reduce(parts)
    assert [record for batch in got[0] for record in batch] == records


@given(st.integers(1, 6), st.integers(0, 40))
def test_interleaving_restores_any_round_robin(ranks: int, updates: int) -> None:
    got: list[Any] = []
    reducer = pytorch._SimpleReducer(got.append)
    reducer.cross_slot_reduce([list(range(rank, updates, ranks)) for rank in range(ranks)])
    assert got == [list(range(updates))]


def test_none_is_a_value_like_any_other() -> None:
    got: list[Any] = []
    pytorch._SimpleReducer(got.append).cross_slot_reduce([[None, 2], [1]])
    assert got == [[None, 1, 2]]


# Classes


def test_metric_reducer_is_abstract() -> None:
    with pytest.raises(TypeError):
        pytorch.MetricReducer()  # type: ignore[abstract]


class Recall(pytorch.MetricReducer):
    """The example of the documentation."""

    hits = positives = 0

    def add(self, hits: int, positives: int) -> None:
        self.hits += hits
        self.positives += positives

    def reset(self) -> None:
        self.hits = self.positives = 0

    def per_slot_reduce(self) -> Any:
        return self.hits, self.positives

    def cross_slot_reduce(self, per_slot_metrics: Sequence[Any]) -> Any:
        return sum(hits for hits, _ in per_slot_metrics) / max(1, sum(positives for _, positives in per_slot_metrics))


class Spread(pytorch.MetricReducer):
    """Several metrics at once, as tensors; wrapped without a name."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.values: list[torch.Tensor] = []

    def per_slot_reduce(self) -> Any:
        return torch.stack(self.values) if self.values else None

    def cross_slot_reduce(self, per_slot_metrics: Sequence[Any]) -> Any:
        values = torch.cat([part for part in per_slot_metrics if part is not None])
        return {"lowest": values.min(), "highest": values.max()}


class ReducingTrial(LineTrial):
    """Passes the records' numbers (1 to 12) to reducers from both methods."""

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.order = context.wrap_reducer(list, name="order")
        self.recall = context.wrap_reducer(Recall(), name="recall", for_training=False)
        self.spread = context.wrap_reducer(Spread(), for_validation=False)
        self.clash = context.wrap_reducer(lambda values: float(len(values)), name="val_loss", for_training=False)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        numbers = (batch[0].flatten() * 12).round()
        for number in numbers:
            self.spread.values.append(number)
        self.order.update(numbers.tolist())
        return super().train_batch(batch, epoch_idx, batch_idx)

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        numbers = (batch[0].flatten() * 12).round()
        self.order.update(numbers.tolist())
        self.recall.add(int((numbers % 3 == 0).sum()), len(numbers))
        self.clash.update(0)
        return super().evaluate_batch(batch, batch_idx)


def reduce_on_ranks() -> Any:
    recorder = Recorder()
    fit(
        with_callbacks(recorder, base=ReducingTrial),
        hparams={"global_batch_size": 2 * _size()},
        max_length=pytorch.Epoch(1),
    )
    seen = dict(recorder.calls)
    avg_metrics, batch_metrics = seen["on_training_workload_end"]
    return [
        {name: float(avg_metrics[name]) for name in ("lowest", "highest")},
        avg_metrics["order"],
        {name: seen["on_validation_end"][0][name] for name in ("recall", "order", "val_loss")},
        sorted(batch_metrics[0]),
    ]


def _size() -> int:
    import os

    return int(os.environ.get("WORLD_SIZE", "1"))


def test_custom_reducers_give_the_same_numbers_on_one_and_two_ranks(data_home: Any) -> None:
    alone = reduce_on_ranks()
    in_order = [[float(number), float(number + 1)] for number in range(1, 12, 2)]
    assert alone == [
        {"lowest": 1.0, "highest": 12.0},
        in_order,
        {"recall": 4 / 12, "order": in_order, "val_loss": 6.0},
        ["loss"],
    ]
    for result in run_ranks(reduce_on_ranks):
        assert result.value == alone
    rows = metrics(data_home, "validation")
    assert len(rows) == 2
    for row in rows:
        assert {name: row[name] for name in ("recall", "val_loss")} == {"recall": 4 / 12, "val_loss": 6.0}
    trained = metrics(data_home, "training")
    assert [(row["lowest"], row["highest"]) for row in trained] == [(1.0, 12.0)] * 2
    assert all("recall" not in row for row in trained)
    assert all("lowest" not in row for row in rows)


def test_all_reducers_are_reset_before_every_workload_and_validation() -> None:
    calls: list[str] = []

    class Watched(pytorch.MetricReducer):
        def __init__(self, name: str) -> None:
            self.name = name

        def reset(self) -> None:
            calls.append(f"reset {self.name}")

        def per_slot_reduce(self) -> Any:
            calls.append(f"slot {self.name}")
            return 1

        def cross_slot_reduce(self, per_slot_metrics: Sequence[Any]) -> Any:
            assert tuple(per_slot_metrics) == (1,)
            calls.append(f"cross {self.name}")
            return 2

    class Watching(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            context.wrap_reducer(Watched("t"), name="t", for_validation=False)
            context.wrap_reducer(Watched("v"), name="v", for_training=False)

    fit(Watching, max_length=pytorch.Batch(2))
    resets = ["reset t", "reset v"]
    assert calls == [*resets, "slot t", "cross t", *resets, "slot v", "cross v"]


def test_errors_in_reducers_name_the_reducer() -> None:
    class Broken(Recall):
        def per_slot_reduce(self) -> Any:
            raise KeyError("nothing here")

    class Breaking(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            context.wrap_reducer(Broken(), name="broken")

    with pytest.raises(ValueError, match=r"Broken\.per_slot_reduce.*'broken'.*nothing here"):
        fit(Breaking, max_length=pytorch.Batch(1))


@pytest.mark.parametrize(
    ("name", "result"), [(None, 3.0), ("named", {"x": 1.0})], ids=["no name, no dict", "name and dict"]
)
def test_name_and_result_must_fit(name: str | None, result: Any) -> None:
    class Misfit(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            context.wrap_reducer(lambda values: result, name=name)

    with pytest.raises(AssertionError, match=r"name"):
        fit(Misfit, max_length=pytorch.Batch(1))


def test_wrap_reducer_by_its_old_name() -> None:
    class Old(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            self.count = context.experimental.wrap_reducer(len, name="count")

        def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            self.count.update(batch_idx)
            return {}

    recorder = Recorder()
    fit(with_callbacks(recorder, base=Old), max_length=pytorch.Batch(1))
    assert dict(recorder.calls)["on_validation_end"][0]["count"] == 6
