"""Training metrics: what `train_batch` may return, and what is reported."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from determined import core, pytorch
from determined.errors import CheckFailedError
from determined.pytorch import _metric_utils
from tests.helpers.ranks import run_ranks
from tests.helpers.trials import LineTrial, fit, metrics


class Workloads(pytorch.PyTorchCallback):
    def __init__(self) -> None:
        self.averages: list[dict[str, Any]] = []
        self.batches: list[list[dict[str, Any]]] = []

    def on_training_workload_end(self, avg_metrics: dict[str, Any], batch_metrics: Any) -> None:
        self.averages.append(dict(avg_metrics))
        self.batches.append(batch_metrics)


def train(returned: Callable[[int], Any], length: int = 4, report: int = 100) -> Workloads:
    """Train with a `train_batch` that returns `returned(batch_idx)`."""
    workloads = Workloads()

    class Returning(LineTrial):
        callbacks = {"workloads": workloads}

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            return returned(batch_idx)

    fit(Returning, max_length=pytorch.Batch(length), reporting_period=pytorch.Batch(report))
    return workloads


@pytest.mark.parametrize(
    ("returned", "average"),
    [
        (lambda i: {"m": i}, 1.5),
        (lambda i: {"m": float(i)}, 1.5),
        (lambda i: {"m": torch.tensor(float(i))}, 1.5),
        (lambda i: {"m": torch.tensor(i)}, 1.5),
        (lambda i: {"m": torch.tensor(float(i), dtype=torch.bfloat16)}, 1.5),
        (lambda i: {"m": torch.tensor(float(i), requires_grad=True) * 1}, 1.5),
        (lambda i: {"m": np.float32(i)}, 1.5),
        (lambda i: {"m": np.array(i)}, 1.5),
        (lambda i: {"m": torch.tensor([i, i + 2.0])}, 2.5),
        (lambda i: {"m": np.array([[i, i + 2.0]])}, 2.5),
        (lambda i: {"m": [i, i + 2.0]}, 2.5),
        (lambda i: {"m": i % 2 == 0}, 0.5),
        (lambda i: {"m": None if i < 2 else i}, 2.5),
        (lambda i: {"m": None if i < 2 else torch.tensor(i)}, 2.5),
        (lambda i: {"m": float("inf")}, math.inf),
        (lambda i: {"m": torch.tensor([float(i), 1.0]).to_sparse()}, 1.25),
        (lambda i: {"m": torch.tensor(float(i)).to(torch.float8_e5m2)}, 1.5),
        (lambda i: {"m": Fraction(i)}, 1.5),
        (lambda i: {"m": 2**70}, 2.0**70),
        (lambda i: {"m": 10**400}, None),
        (lambda i: {"m": {1, 2}}, None),
        (lambda i: {"m": "text"}, None),
        (lambda i: {"m": {"nested": 1}}, None),
        (lambda i: {"m": torch.zeros(i + 1)}, None),
        (lambda i: {"m": torch.zeros(()) if i == 0 else torch.zeros(3)}, None),
        (lambda i: {"m": np.zeros(i + 1)}, None),
    ],
    ids=lambda value: None if callable(value) else str(value),
)
def test_averages(returned: Callable[[int], Any], average: float | None) -> None:
    workloads = train(returned)
    assert len(workloads.averages) == 1
    assert workloads.averages[0]["m"] == average
    assert average is None or type(workloads.averages[0]["m"]) is float
    assert len(workloads.batches[0]) == 4


def test_metrics_of_all_none_are_nan_without_a_warning() -> None:
    assert math.isnan(train(lambda i: {"m": None}).averages[0]["m"])
    assert math.isnan(train(lambda i: {"m": float("nan")}).averages[0]["m"])


def test_a_tensor_is_the_loss() -> None:
    workloads = train(lambda i: torch.tensor(float(i)))
    assert workloads.averages[0]["loss"] == 1.5
    assert [float(batch["loss"]) for batch in workloads.batches[0]] == [0, 1, 2, 3]


def test_no_metrics_are_fine(data_home: Any) -> None:
    workloads = train(lambda i: {})
    assert workloads.averages == [{"batches": 4, "epochs": 0}]
    assert workloads.batches == [[{}, {}, {}, {}]]
    assert len(metrics(data_home, "training")) == 1


@pytest.mark.parametrize("returned", [1.5, None, (1, 2), "loss", [torch.ones(1)]])
def test_other_returns_are_refused_by_the_name_of_the_method(returned: Any) -> None:
    with pytest.raises(TypeError, match="train_batch"):
        train(lambda i: returned)


def test_names_must_not_change_within_a_workload() -> None:
    with pytest.raises(CheckFailedError, match=r"train_batch.*'a'.*'b'"):
        train(lambda i: {"a" if i < 2 else "b": 1.0})
    workloads = train(lambda i: {"a" if i < 2 else "b": 1.0}, report=2)
    assert [sorted(average) for average in workloads.averages] == [
        ["a", "batches", "epochs"],
        ["b", "batches", "epochs"],
    ]


def test_every_batch_is_averaged_in_its_own_workload(data_home: Any) -> None:
    workloads = train(lambda i: {"m": torch.tensor(float(i))}, length=8, report=3)
    assert [average["m"] for average in workloads.averages] == [1.0, 4.0, 6.5]
    assert [average["batches"] for average in workloads.averages] == [3, 6, 8]
    assert [average["epochs"] for average in workloads.averages] == [0, 1, 1]
    assert [[float(batch["m"]) for batch in batches] for batches in workloads.batches] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    reported = metrics(data_home, "training")
    assert [(row["steps_completed"], row["m"]) for row in reported] == [(3, 1.0), (6, 4.0), (8, 6.5)]


def test_counters_of_the_users_own_are_kept() -> None:
    average = train(lambda i: {"batches": 1000.0, "epochs": 7.0}).averages[0]
    assert average == {"batches": 1000.0, "epochs": 7.0}


def test_values_are_those_of_their_moment_even_if_tensors_change_later() -> None:
    """A running total, a parameter and a buffer are changed in place by later batches."""
    total, vector = torch.zeros(()), torch.zeros(2)
    weight = torch.nn.Parameter(torch.zeros(()))

    def returned(i: int) -> dict[str, Any]:
        with torch.no_grad():
            total.add_(1)
            vector.add_(1)
            weight.add_(1)
        return {"total": total, "vector": vector, "weight": weight, "view": weight.detach(), "list": [total]}

    workloads = train(returned)
    for name in ("total", "weight", "view"):
        assert [float(batch[name]) for batch in workloads.batches[0]] == [1, 2, 3, 4], name
    assert [batch["vector"].tolist() for batch in workloads.batches[0]] == [[i, i] for i in (1, 2, 3, 4)]
    assert workloads.averages[0]["total"] == workloads.averages[0]["vector"] == 2.5


def test_graphs_are_not_kept_alive() -> None:
    freed: list[int] = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.watch = Finalizer()
            return x * 1

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads

    class Finalizer:
        def __del__(self) -> None:
            freed.append(1)

    weight = torch.nn.Parameter(torch.ones(()))
    seen: list[int] = []

    def returned(i: int) -> dict[str, Any]:
        seen.append(len(freed))
        return {"loss": Watched.apply(weight)}  # type: ignore[no-untyped-call]

    train(returned)
    assert all(made - gone <= 1 for made, gone in enumerate(seen)), "at most that of the batch before"


def test_the_users_dict_may_be_one_object_for_all_batches() -> None:
    shared: dict[str, Any] = {}

    def returned(i: int) -> dict[str, Any]:
        shared["m"] = torch.tensor(float(i))
        return shared

    workloads = train(returned)
    assert [float(batch["m"]) for batch in workloads.batches[0]] == [0, 1, 2, 3]


def test_a_thousand_metrics_and_long_names(data_home: Any) -> None:
    names = [f"metric {i}" for i in range(1000)] + ["n" * 5000]
    train(lambda i: dict.fromkeys(names, float(i)))
    reported = metrics(data_home, "training")[0]
    assert all(reported[name] == 1.5 for name in names)


# On several ranks


def different_on_ranks() -> Any:
    import os

    rank = int(os.environ["RANK"])
    workloads = train(
        lambda i: {
            "m": torch.tensor(float(10 * rank + i)),
            "vector": torch.tensor([rank, i + 1.0]),
            "text": "chief" if rank == 0 else "other",
            "sometimes": None if rank == 0 else i,
            "now and then": None if i == 0 else i,
        }
    )
    distributed = core.DistributedContext.from_torch_distributed()
    by_old_helper = _metric_utils._average_training_metrics([{"a": float(rank)}, {"a": 2.0 + rank}], distributed)
    assert [float(row["a"]) for row in by_old_helper] == ([0.5, 2.5] if rank == 0 else [1.0, 3.0])
    distributed.close()
    return {
        "averages": workloads.averages[0],
        "m": [float(batch["m"]) for batch in workloads.batches[0]],
        "sometimes": [float(batch["sometimes"]) for batch in workloads.batches[0]],
    }


def test_ranks_are_averaged_batch_by_batch(data_home: Any) -> None:
    for result in run_ranks(different_on_ranks, env={"DET_PROGRESS": "0"}):
        assert result.value == {
            "averages": {
                "m": 6.5,
                "vector": 1.5,
                "text": None,
                "sometimes": 1.5,
                "now and then": 2.0,
                "batches": 4,
                "epochs": 0,
            },
            "m": [5, 6, 7, 8],
            "sometimes": [0, 1, 2, 3],
        }
    assert metrics(data_home, "training")[0]["m"] == 6.5


# The helpers of earlier releases


def test_old_helpers() -> None:
    given = {"a": torch.ones(2), "b": "text"}
    converted = _metric_utils._convert_metrics_to_numpy(given)
    assert isinstance(converted["a"], np.ndarray)
    assert converted["b"] == "text"
    by_name, counts = _metric_utils._process_combined_metrics_and_batches([({"a": 1.0}, 4), ({}, 0), ({"a": 3.0}, 2)])
    assert (by_name, counts) == ({"a": [1.0, 3.0]}, [4, 2])
    assert _metric_utils._process_combined_metrics_and_batches([({}, 0)]) == ({}, [])
    alone = _metric_utils._average_training_metrics([{"a": 1.0}, {"a": 2.0}], core.DummyDistributedContext())
    assert [float(row["a"]) for row in alone] == [1.0, 2.0]
    assert _metric_utils._prepare_metrics_reducers(pytorch.Reducer.SUM, ["a", "b"]) == {
        "a": pytorch.Reducer.SUM,
        "b": pytorch.Reducer.SUM,
    }
