"""Validation: what `evaluate_batch` and `evaluate_full_dataset` return, reduced over batches and ranks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from determined import pytorch
from determined.errors import InvalidExperimentException
from determined.pytorch import Reducer
from tests.helpers.ranks import run_ranks
from tests.helpers.trials import LineTrial, fit, metrics


class Validations(pytorch.PyTorchCallback):
    def __init__(self) -> None:
        self.outputs: list[list[dict[str, Any]]] = []
        self.metrics: list[dict[str, Any]] = []

    def on_validation_epoch_end(self, outputs: list[Any]) -> None:
        self.outputs.append(outputs)

    def on_validation_end(self, metrics: dict[str, Any]) -> None:
        self.metrics.append(dict(metrics))


class Evaluating(LineTrial):
    """Validates on the numbers 0 to `numbers` - 1 in batches of `batch_size`."""

    numbers = 5
    batch_size = 2
    reducer: Any = Reducer.AVG
    setup: Callable[[Any], None] = staticmethod(lambda context: None)
    returned: Callable[[Any, int], Any] = staticmethod(lambda batch, batch_idx: {"m": batch.float().mean()})

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.setup(context)
        self.validations = Validations()
        self.indices: list[int] = []

    def build_callbacks(self) -> dict[str, Any]:
        return {"validations": self.validations}

    def build_validation_data_loader(self) -> Any:
        return pytorch.DataLoader(range(self.numbers), batch_size=self.batch_size)

    def evaluate_batch(self, batch: Any, batch_idx: int) -> Any:
        self.indices.append(batch_idx)
        return self.returned(batch, batch_idx)

    def evaluation_reducer(self) -> Any:
        return self.reducer


def validate(returned: Callable[[Any, int], Any] | None = None, **members: Any) -> Any:
    """Train one batch, validate, and return the trial."""
    if returned is not None:
        members["returned"] = staticmethod(returned)
    if "setup" in members:
        members["setup"] = staticmethod(members["setup"])
    return fit(type("Evaluating", (Evaluating,), members), max_length=pytorch.Batch(1))


def reduced(returned: Callable[[Any, int], Any] | None = None, **members: Any) -> dict[str, Any]:
    found: dict[str, Any] = validate(returned, **members).validations.metrics[0]
    return found


# Batches [0, 1], [2, 3], [4]


@pytest.mark.parametrize(
    ("reducer", "expected"), [(Reducer.AVG, 7 / 3), (Reducer.SUM, 7.0), (Reducer.MAX, 4.0), (Reducer.MIN, 0.5)]
)
def test_reducers(reducer: Reducer, expected: float, data_home: Any) -> None:
    value = reduced(reducer=reducer)["m"]
    assert value == pytest.approx(expected)
    assert value.dtype == np.float32
    assert metrics(data_home, "validation")[0]["m"] == pytest.approx(expected)


def test_a_reducer_for_each_name() -> None:
    found = reduced(
        lambda batch, i: {"sum": batch.sum(), "max": float(batch.max())},
        reducer={"sum": Reducer.SUM, "max": Reducer.MAX},
    )
    assert found["sum"] == 10
    assert found["max"] == 4


@pytest.mark.parametrize(
    "reducer",
    [
        {},
        {"other": Reducer.AVG},
        {"m": Reducer.AVG, "other": Reducer.AVG},
        {"m": "AVG"},
        "AVG",
        None,
        3,
    ],
    ids=repr,
)
def test_misfit_reducers_are_refused(reducer: Any) -> None:
    with pytest.raises(InvalidExperimentException, match="evaluation_reducer"):
        validate(reducer=reducer)


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (lambda batch, i: {"m": i}, 1.0),
        (lambda batch, i: {"m": i == 1}, 1 / 3),
        (lambda batch, i: {"m": np.float64(i)}, 1.0),
        (lambda batch, i: {"m": torch.tensor(i)}, 1.0),
        (lambda batch, i: {"m": torch.tensor([i, i + 2.0])}, 2.0),
        (lambda batch, i: {"m": [i, i + 2.0]}, 2.0),
        (lambda batch, i: {"m": torch.tensor(float(i), dtype=torch.bfloat16)}, 1.0),
        (lambda batch, i: {"m": float("inf")}, float("inf")),
        (lambda batch, i: {"m": torch.tensor([i, 2.0 * i]).to_sparse()}, 1.5),
        (lambda batch, i: {"m": Decimal(i)}, 1.0),
    ],
)
def test_values_become_one_number(returned: Callable[[Any, int], Any], expected: float) -> None:
    value = reduced(returned)["m"]
    assert np.ndim(value) == 0
    assert value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("reducer", "expected"), [(Reducer.AVG, np.nan), (Reducer.SUM, 0.0), (Reducer.MAX, np.nan), (Reducer.MIN, np.nan)]
)
def test_values_without_any_number_in_them(reducer: Reducer, expected: float) -> None:
    value = reduced(lambda batch, i: {"m": torch.zeros(0)}, reducer=reducer)["m"]
    assert value == pytest.approx(expected, nan_ok=True)


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match=r"name of a metric .* 3"):
        validate(lambda batch, i: {3: 1.0})


def test_python_numbers_are_reduced_in_double_precision() -> None:
    assert reduced(lambda batch, i: {"m": 0.1})["m"].dtype == np.float64


def test_vectors_keep_their_shape_on_request() -> None:
    def keep(context: Any) -> None:
        context.experimental.keep_metric_shapes()

    def returned(batch: Any, i: int) -> dict[str, Any]:
        return {"m": torch.tensor([i, 10.0 * i])}

    for reducer, expected in [
        (Reducer.AVG, [1, 10]),
        (Reducer.SUM, [3, 30]),
        (Reducer.MAX, [2, 20]),
        (Reducer.MIN, [0, 0]),
    ]:
        assert reduced(returned, setup=keep, reducer=reducer)["m"].tolist() == expected


def test_records_weigh_alike_on_request() -> None:
    def weigh(context: Any) -> None:
        context.experimental.weight_metrics_by_records()

    assert reduced(setup=weigh)["m"] == pytest.approx(2.0)
    # Only averages have weights.
    assert reduced(lambda batch, i: {"m": torch.tensor([1.0, 3.0])}, setup=weigh, reducer=Reducer.SUM)["m"] == 12
    assert reduced(lambda batch, i: {"m": torch.tensor([1.0, 3.0])}, setup=weigh, reducer=Reducer.MAX)["m"] == 3


def test_batch_idx_and_outputs() -> None:
    trial = validate(lambda batch, i: {"m": batch.float().mean(), "n": i})
    assert trial.indices == [0, 1, 2]
    outputs = trial.validations.outputs[0]
    assert [(float(one["m"]), int(one["n"])) for one in outputs] == [(0.5, 0), (2.5, 1), (4.0, 2)]
    assert all(isinstance(one["m"], (np.ndarray, np.generic)) for one in outputs)


def test_no_metrics_are_fine(data_home: Any) -> None:
    trial = validate(lambda batch, i: {})
    assert trial.validations.outputs == [[{}, {}, {}]]
    assert trial.validations.metrics == [{}]
    assert metrics(data_home, "validation") == [{"steps_completed": 1, "batches": 1, "epochs": 0}]


@pytest.mark.parametrize("returned", [None, 1.0, torch.ones(1), [("m", 1)]])
def test_other_returns_are_refused_by_name(returned: Any) -> None:
    with pytest.raises(TypeError, match=r"evaluate_batch\(\) must return a dict"):
        validate(lambda batch, i: returned)


def test_names_must_not_change() -> None:
    with pytest.raises(ValueError, match=r"evaluate_batch.*'a'.*'b'"):
        validate(lambda batch, i: {"a" if i == 0 else "b": 1})


@pytest.mark.parametrize("value", ["text", None, {"x": 1}, object()])
def test_what_cannot_be_reduced_is_refused_by_name(value: Any) -> None:
    with pytest.raises(TypeError, match="'strange'"):
        validate(lambda batch, i: {"strange": value})


def test_ragged_vectors_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="'ragged'"):
        validate(lambda batch, i: {"ragged": batch.float()})


def test_an_empty_validation_set_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="build_validation_data_loader"):
        validate(numbers=0)


def test_values_are_those_of_their_moment() -> None:
    running = torch.zeros(())

    def returned(batch: Any, i: int) -> dict[str, Any]:
        running.add_(1)
        return {"m": running}

    assert reduced(returned)["m"] == 2.0


def test_gradients_are_off_and_models_in_eval_mode() -> None:
    seen: list[Any] = []

    class Watching(Evaluating):
        def evaluate_batch(self, batch: Any, batch_idx: int) -> Any:
            seen.append((torch.is_grad_enabled(), self.model.training))
            return {}

    fit(Watching, max_length=pytorch.Batch(1))
    assert seen == [(False, False)] * 3


# evaluate_full_dataset


class FullDataSet(LineTrial):
    evaluate_batch = pytorch.PyTorchTrial.evaluate_batch
    result: Any = None
    calls: list[Any]

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.validations = Validations()
        self.calls = []

    def build_callbacks(self) -> dict[str, Any]:
        return {"validations": self.validations}

    def build_validation_data_loader(self) -> Any:
        return pytorch.DataLoader(range(5), batch_size=2)

    def evaluate_full_dataset(self, data_loader: Any) -> Any:
        assert isinstance(data_loader, torch.utils.data.DataLoader)
        self.calls.append([batch.tolist() for batch in data_loader])
        return self.result

    def evaluation_reducer(self) -> Any:
        raise AssertionError("not consulted")


def test_the_complete_data_set_at_once(data_home: Any) -> None:
    result = {"tensor": torch.tensor(1.5), "number": 2, "list": [1, 2], "text": "fine"}
    trial = fit(type("FullDataSet", (FullDataSet,), {"result": result}), max_length=pytorch.Batch(1))
    assert trial.calls == [[[0, 1], [2, 3], [4]]]
    found = trial.validations.metrics[0]
    assert isinstance(found["tensor"], np.ndarray)
    assert found["tensor"] == 1.5
    assert (found["number"], found["list"], found["text"]) == (2, [1, 2], "fine")
    assert trial.validations.outputs == []
    assert metrics(data_home, "validation")[0]["text"] == "fine"


def test_the_complete_data_set_must_give_a_dict() -> None:
    with pytest.raises(TypeError, match=r"evaluate_full_dataset\(\) must return a dict"):
        fit(type("FullDataSet", (FullDataSet,), {"result": 3.0}), max_length=pytorch.Batch(1))


# get_batch_length


def test_get_batch_length_is_asked_for_every_validation_batch_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[int] = []

    class Own(Evaluating):
        def get_batch_length(self, batch: Any) -> int:
            asked.append(len(batch))
            return 100

    logging.getLogger().setLevel(logging.INFO)
    fit(Own, max_length=pytorch.Batch(1))
    assert asked == [2, 2, 1]
    assert any("300 records in 3 batches" in record.getMessage() for record in caplog.records)


# On two ranks


def validate_on_ranks(records: int) -> Any:
    """Batches of 2 records are distributed; each rank's metrics are those of its own batches."""

    class Shared(Evaluating):
        reducer = {"avg": Reducer.AVG, "sum": Reducer.SUM, "max": Reducer.MAX, "min": Reducer.MIN}

        def evaluate_batch(self, batch: Any, batch_idx: int) -> Any:
            self.indices.append(batch_idx)
            return dict.fromkeys(self.reducer, batch.float().mean())

    Shared.numbers = records
    trial = fit(Shared, max_length=pytorch.Batch(1))
    return {
        "metrics": {name: float(value) for name, value in trial.validations.metrics[0].items()},
        "batches": trial.indices,
        "outputs": len(trial.validations.outputs[0]),
    }


def refusal(**members: Any) -> str:
    try:
        validate(**members)
    except (ValueError, RuntimeError) as error:
        return str(error)
    return ""


def everything_on_ranks() -> Any:
    """Everything that two ranks are tested for, in one pair of processes."""
    trial = fit(type("FullDataSet", (FullDataSet,), {"result": {"m": 2.0}}), max_length=pytorch.Batch(1))
    rank = trial.context.distributed.rank
    return {
        "9": validate_on_ranks(9),
        "2": validate_on_ranks(2),
        "whole": {"calls": trial.calls, "metrics": trial.validations.metrics},
        "names differ": refusal(returned=lambda batch, i: {f"name {rank}": 1.0}),
        "empty": refusal(numbers=0),
    }


def test_two_ranks(data_home: Any) -> None:
    chief, other = together = [result.value for result in run_ranks(everything_on_ranks)]

    # Nine records are three batches for one rank and two for the other; two records leave one rank without any.
    for records, batches in [(9, [[0, 1, 2], [0, 1]]), (2, [[0], []])]:
        alone = validate_on_ranks(records)
        for value, expected in zip(together, batches, strict=True):
            assert value[str(records)]["batches"] == expected
            assert value[str(records)]["outputs"] == len(expected)
            assert value[str(records)]["metrics"] == pytest.approx(alone["metrics"])
    rows = [row for row in metrics(data_home, "validation") if "sum" in row]
    assert len(rows) == 4
    assert rows[:2] == [pytest.approx(row) for row in rows[2:]]

    assert chief["whole"] == {"calls": [[[0, 1], [2, 3], [4]]], "metrics": [{"m": 2.0}]}
    assert other["whole"] == {"calls": [], "metrics": [{"m": 2.0}]}

    for value in together:
        assert "evaluate_batch()" in value["names differ"]
        assert "name 0" in value["names differ"]
        assert "name 1" in value["names differ"]
        assert "build_validation_data_loader" in value["empty"]


def test_a_list_and_a_torch_loader_serve_as_validation_data() -> None:
    def disable(context: Any) -> None:
        context.experimental.disable_dataset_reproducibility_checks()

    records: Any = range(3)
    loaders: list[Any] = [
        [torch.tensor([0, 1]), torch.tensor([2])],
        torch.utils.data.DataLoader(records, batch_size=2),
    ]
    for loader in loaders:
        found = reduced(setup=disable, build_validation_data_loader=lambda self, loader=loader: loader)
        assert found["m"] == pytest.approx(1.25)


def test_tuples_of_a_tensor_data_set_are_moved() -> None:
    data = TensorDataset(torch.arange(4.0), torch.arange(4.0))
    found = reduced(
        lambda batch, i: {"m": (batch[0] * batch[1]).sum()},
        build_validation_data_loader=lambda self: pytorch.DataLoader(data, batch_size=2),
        reducer=Reducer.SUM,
    )
    assert found["m"] == 14
