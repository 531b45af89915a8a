"""`to_device` and `data_length`: every structure a batch may have."""

from __future__ import annotations

import collections
import logging
import types
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from determined import pytorch
from tests.helpers.trials import LineTrial, fit

CPU = torch.device("cpu")
META = torch.device("meta")


class Point(NamedTuple):
    x: Any
    y: Any


class Graph:
    """A batch type that moves itself; it takes the device as its only argument."""

    def __init__(self, device: Any = None) -> None:
        self.device = device

    def to(self, device: torch.device) -> Graph:
        return Graph(device)


def same(left: Any, right: Any) -> bool:
    """Return whether values are equal in structure, in types and in numbers."""
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


T1, T2 = torch.zeros(2), torch.zeros(2, 2)
DOCUMENTED: dict[str, tuple[Any, Any, int]] = {
    # The structures of the documentation, what train_batch gets, and the number of records.
    "array": (np.array([[0, 0], [0, 0]]), torch.zeros(2, 2, dtype=torch.int64), 2),
    "tensor": (torch.Tensor([[0, 0], [0, 0]]), T2, 2),
    "tuple": ((torch.Tensor([0, 0]), torch.Tensor([[0, 0], [0, 0]])), (T1, T2), 2),
    "tuple of arrays": ((np.zeros(3), np.ones((3, 2))), (torch.zeros(3).double(), torch.ones(3, 2).double()), 3),
    "list": ([torch.Tensor([0, 0]), torch.Tensor([[0, 0], [0, 0]])], [T1, T2], 2),
    "list of both": ([np.zeros(4, np.float32), torch.ones(4)], [torch.zeros(4), torch.ones(4)], 4),
    "dict": (
        {"data": torch.Tensor([[0, 0], [0, 0]]), "label": torch.Tensor([[1, 1], [1, 1]])},
        {"data": T2, "label": T2 + 1},
        2,
    ),
    "combination": (
        {
            "data": [{"sub_data1": torch.Tensor([[0, 0]] * 3)}, {"sub_data2": np.zeros(3, np.float32)}],
            "label": (torch.Tensor([0, 0]), torch.Tensor([[0, 0], [0, 0]])),
        },
        {"data": [{"sub_data1": torch.zeros(3, 2)}, {"sub_data2": torch.zeros(3)}], "label": (T1, T2)},
        3,
    ),
}


@pytest.mark.parametrize("kind", DOCUMENTED)
def test_documented_structures(kind: str) -> None:
    batch, expected, records = DOCUMENTED[kind]
    assert same(pytorch.to_device(batch, CPU), expected)
    assert pytorch.data_length(batch) == records


def test_documented_structures_reach_the_trial() -> None:
    seen: list[Any] = []

    class Collecting(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            context.experimental.disable_dataset_reproducibility_checks()

        def build_training_data_loader(self) -> Any:
            return [batch for batch, _, _ in DOCUMENTED.values()]

        def build_validation_data_loader(self) -> Any:
            return [batch for batch, _, _ in DOCUMENTED.values()]

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            seen.append(batch)
            return {}

        def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            seen.append(batch)
            return {}

    fit(Collecting, max_length=pytorch.Epoch(1))
    expected = [moved for _, moved, _ in DOCUMENTED.values()]
    assert same(seen, expected + expected)


# Containers keep their type


def test_named_tuples_keep_their_class() -> None:
    class Checked(NamedTuple):
        x: Any

    class Strict(Checked):
        def __new__(cls, *args: Any) -> Strict:
            raise AssertionError("made by hand only")

    moved = pytorch.to_device([Point(np.ones(2), "name")], CPU)[0]
    assert type(moved) is Point
    assert torch.equal(moved.x, torch.ones(2).double())
    assert moved.y == "name"
    assert type(pytorch.to_device(Strict._make([T1]), META)) is Strict


def test_packed_sequences_can_feed_an_rnn() -> None:
    packed = pack_sequence([torch.ones(3, 2), torch.ones(1, 2)])
    moved = pytorch.to_device({"x": packed}, CPU)["x"]
    assert isinstance(moved, PackedSequence)
    assert torch.nn.RNN(2, 4)(moved)[1].shape == (1, 2, 4)
    assert pytorch.to_device(packed, META).data.device == META
    assert pytorch.data_length(packed) == 2
    assert pytorch.data_length([packed]) == 2


class OwnMapping(collections.abc.MutableMapping[str, Any]):
    """Keeps its items in an inner dict, so that a shallow copy would share them."""

    def __init__(self, items: Any = ()) -> None:
        self.items_of_mine = dict(items)

    def __getitem__(self, key: str) -> Any:
        return self.items_of_mine[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.items_of_mine[key] = value

    def __delitem__(self, key: str) -> None:
        del self.items_of_mine[key]

    def __iter__(self) -> Any:
        return iter(self.items_of_mine)

    def __len__(self) -> int:
        return len(self.items_of_mine)


class Unconstructible(OwnMapping):
    def __init__(self, first: Any, second: Any) -> None:
        super().__init__({"x": first, "y": second})


class Sealed(collections.OrderedDict[str, Any]):
    """Like the outputs of well-known model libraries."""

    def update(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("cannot be updated")


class WithAttribute(dict[str, Any]):
    pass


@pytest.mark.parametrize(
    "make", [collections.OrderedDict, collections.UserDict, WithAttribute, OwnMapping, Sealed, types.MappingProxyType]
)
def test_mappings_keep_their_class_and_the_original_its_items(make: Any) -> None:
    array = np.ones(2)
    batch = make({"x": array, "nested": {"y": array}})
    moved = pytorch.to_device(batch, CPU)
    assert type(moved) is type(batch)
    assert list(moved) == ["x", "nested"]
    assert torch.equal(moved["x"], torch.ones(2).double())
    assert torch.equal(moved["nested"]["y"], torch.ones(2).double())
    assert batch["x"] is array
    assert batch["nested"]["y"] is array
    assert pytorch.data_length(batch) == 2


def test_what_a_mapping_knows_besides_its_items_is_kept() -> None:
    counts: collections.defaultdict[str, Any] = collections.defaultdict(list, x=np.ones(1))
    moved = pytorch.to_device(counts, CPU)
    assert type(moved) is collections.defaultdict
    assert moved["missing"] == []
    own = WithAttribute(x=np.ones(1))
    own.name = "train"  # type: ignore[attr-defined]
    assert pytorch.to_device(own, CPU).name == "train"


def test_a_mapping_that_cannot_be_made_again_becomes_a_dict() -> None:
    batch = Unconstructible(np.ones(1), 3)
    assert same(pytorch.to_device(batch, CPU), {"x": torch.ones(1).double(), "y": 3})
    assert isinstance(batch["x"], np.ndarray)


# Leaves


@pytest.mark.parametrize(
    "dtype",
    ["f2", "f4", "f8", "c8", "c16", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"],
)
def test_arrays_of_numbers_become_tensors(dtype: str) -> None:
    for order in ("<", ">"):
        array = np.array([0, 1, 1], dtype=order + dtype if dtype != "?" else dtype)
        moved = pytorch.to_device(array, CPU)
        assert isinstance(moved, torch.Tensor)
        assert moved.tolist() == array.tolist()
        assert moved.element_size() == array.itemsize


def read_only() -> Any:
    array = np.arange(4.0)
    array.flags.writeable = False
    return array


ODD_ARRAYS = {
    "negative stride": np.arange(4.0)[::-1],
    "negative strides": np.arange(6.0).reshape(2, 3)[::-1, ::-1],
    "not contiguous": np.arange(12.0).reshape(3, 4)[:, ::2],
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "read only": read_only(),
    "read only and reversed": read_only()[::-1],
    "broadcast": np.broadcast_to(np.arange(2.0), (3, 2)),
    "other byte order": np.arange(4.0, dtype=">f4"),
    "long double": np.arange(4.0).astype(np.longdouble),
    "long complex": np.arange(4.0).astype(np.clongdouble),
    "field of a record": np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "i1"), ("b", "f4")])["b"],
    "0-d": np.array(3.5),
    "empty": np.zeros((0, 3)),
}


@pytest.mark.parametrize("kind", ODD_ARRAYS)
def test_odd_arrays_keep_their_numbers(kind: str) -> None:
    array = ODD_ARRAYS[kind]
    before = array.tolist()
    moved = pytorch.to_device([array], CPU)[0]
    assert moved.tolist() == before
    assert moved.shape == array.shape
    if moved.numel() and not array.flags.writeable:
        moved += 1
        assert array.tolist() == before, "a read-only array is not written to"


def test_anything_with_to_moves_itself() -> None:
    moved = pytorch.to_device({"graph": [Graph()]}, META)["graph"][0]
    assert moved.device == META
    assert pytorch.to_device(torch.nn.Parameter(torch.ones(1)), META).device == META
    module = pytorch.to_device(torch.nn.Linear(1, 1), META)
    assert module.weight.device == META


def test_tensors_in_place_are_not_copied() -> None:
    tensor = torch.ones(3)
    assert pytorch.to_device(tensor, CPU) is tensor
    assert pytorch.to_device([tensor], CPU)[0] is tensor


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "determined.pytorch" and r.levelno >= logging.WARNING]


@pytest.mark.parametrize("leaf", ["text", b"bytes", 1, 2.5, True, None, 1j])
def test_harmless_leaves_stay_without_a_warning(leaf: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert pytorch.to_device({"x": [leaf]}, CPU) == {"x": [leaf]}
    assert warnings_of(caplog) == []


@pytest.mark.parametrize(
    "leaf",
    [{1, 2}, object(), np.float32(1.5), np.array(["a", "b"]), np.array([None]), np.array(["2020-01-01"], "M8[D]")],
    ids=["set", "object", "numpy scalar", "strings", "objects", "dates"],
)
def test_what_cannot_be_moved_stays_with_one_warning_per_type(leaf: Any, caplog: pytest.LogCaptureFixture) -> None:
    moved = pytorch.to_device([leaf, leaf], CPU)
    assert moved[0] is leaf
    assert len(warnings_of(caplog)) == 1
    assert type(leaf).__name__ in warnings_of(caplog)[0]
    warned: set[type] = set()
    for _ in range(3):
        pytorch.to_device(leaf, CPU, warned)
    assert len(warnings_of(caplog)) == 2
    pytorch.to_device(leaf, CPU)
    assert len(warnings_of(caplog)) == 3, "without a set, every call begins anew"


def test_the_third_argument_of_012_is_a_bool(caplog: pytest.LogCaptureFixture) -> None:
    pytorch.to_device([object()], CPU, False)
    assert warnings_of(caplog) == []
    pytorch.to_device([object()], CPU, True)
    assert len(warnings_of(caplog)) == 1


def test_the_context_warns_once_in_its_life(caplog: pytest.LogCaptureFixture) -> None:
    with pytorch.init() as context:
        assert context.to_device({"x": np.ones(1)})["x"].dtype == torch.float64
        for _ in range(3):
            context.to_device([object()])
    assert len(warnings_of(caplog)) == 1


# Lengths


@pytest.mark.parametrize(
    ("data", "length"),
    [
        (torch.zeros(5, 2), 5),
        (np.zeros(4), 4),
        ({"data": [torch.zeros(3), torch.zeros(9)]}, 3),
        ([[torch.zeros(9, 2)]], 9),
        ((np.zeros((2, 7)), 1), 2),
        ({"ids": ["a", "b"], "x": torch.zeros(2, 3)}, 2),
        ([None, 7, {"x": np.zeros(6)}], 6),
        (collections.UserDict({"x": torch.zeros(8)}), 8),
        (Point(torch.zeros(2), None), 2),
        ([[], torch.zeros(3)], 3),
    ],
)
def test_data_length(data: Any, length: int) -> None:
    assert pytorch.data_length(data) == length


@pytest.mark.parametrize("data", [[], (), {}, [[]], {"x": []}])
def test_data_length_of_nothing(data: Any) -> None:
    with pytest.raises(ValueError, match="empty"):
        pytorch.data_length(data)


@pytest.mark.parametrize("data", ["text", 3, None, object(), {1}, ["text"], torch.tensor(1.0), [torch.tensor(1)]])
def test_data_length_of_what_has_none(data: Any) -> None:
    with pytest.raises(TypeError):
        pytorch.data_length(data)


def test_get_batch_length_is_data_length_unless_overridden() -> None:
    trial = fit(LineTrial, max_length=pytorch.Batch(1))
    assert trial.get_batch_length([[torch.zeros(7)]]) == 7


def test_a_batch_type_of_ones_own_trains_without_a_length() -> None:
    """Only a log line uses the length: training continues if it is unknown."""
    seen: list[Any] = []

    class Graphs(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            context.experimental.disable_dataset_reproducibility_checks()

        def build_training_data_loader(self) -> Any:
            return [Graph()]

        def build_validation_data_loader(self) -> Any:
            return [Graph()]

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            seen.append(batch.device)
            return {}

        def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            seen.append(batch.device)
            return {}

    logging.getLogger().setLevel(logging.INFO)
    fit(Graphs, max_length=pytorch.Batch(1))
    assert seen == [CPU, CPU]
    with pytest.raises(TypeError, match="get_batch_length"):
        pytorch.data_length(Graph())


def test_auto_to_device_can_be_switched_off() -> None:
    seen: list[Any] = []

    class Unmoved(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            context.experimental.disable_dataset_reproducibility_checks()
            context.experimental.disable_auto_to_device()

        def build_training_data_loader(self) -> Any:
            return [np.ones(1)]

        def build_validation_data_loader(self) -> Any:
            return [np.ones(1)]

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            seen.append(type(batch))
            return {}

        def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            seen.append(type(batch))
            return {}

    fit(Unmoved, max_length=pytorch.Batch(1))
    assert seen == [np.ndarray, np.ndarray]
