"""TensorBoard output: the files the loop writes, read back by TensorBoard itself."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util import tensor_util

from determined import pytorch
from determined.tensorboard import directory
from determined.tensorboard.events import EventFileWriter
from determined.tensorboard.metric_writers import BatchMetricWriter, MetricWriter
from determined.tensorboard.metric_writers.pytorch import TorchWriter
from tests.helpers.trials import LineTrial, fit

Scalars = dict[str, list[tuple[int, float]]]


def scalars(path: Path) -> Scalars:
    """Return every scalar in the event files below `path`, by tag; checksums are verified."""
    found: Scalars = {}
    for file in sorted(path.rglob("*tfevents*")):
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                number = float(tensor_util.make_ndarray(value.tensor))
                found.setdefault(value.tag, []).append((event.step, number))
        verify_checksums(file)
    return found


def verify_checksums(file: Path) -> None:
    """Verify the checksums, which TensorBoard's loader ignores and other readers do not."""
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    data = file.read_bytes()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        assert struct.unpack_from("<I", data, at + 8)[0] == masked_crc32c(data[at : at + 8])
        body = data[at + 12 : at + 12 + length]
        assert len(body) == length
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked_crc32c(body)
        at += 12 + length + 4


class Logged(LineTrial):
    """Metrics with known numbers: `loss` is ten times the batch index, the others are of every type."""

    trained: Callable[[int], dict[str, Any]] = staticmethod(lambda i: {"loss": torch.tensor(10.0 * i)})
    validated: Callable[[], dict[str, Any]] = staticmethod(lambda: {"loss": torch.tensor(5.0)})
    path: Path

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        type(self).path = context.get_tensorboard_path()
        self.total = context.wrap_reducer(sum, name="total", for_validation=False)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        self.total.update(1.0)
        return self.trained(batch_idx)

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return self.validated()


def logged(members: dict[str, Any] | None = None, base: type[Logged] = Logged, **arguments: Any) -> Scalars:
    trial_class: Any = type("Logged", (base,), members or {})
    fit(trial_class, **arguments)
    return scalars(trial_class.path)


FIVE: dict[str, Any] = {
    "max_length": pytorch.Batch(5),
    "validation_period": pytorch.Batch(3),
    "reporting_period": pytorch.Batch([2, 4]),
}
EXPECTED = {
    "Determined/loss": [(0, 0.0), (1, 10.0), (2, 20.0), (3, 30.0), (4, 40.0)],
    "Determined/val_loss": [(3, 5.0), (5, 5.0)],
    "Determined/total": [(2, 2.0), (3, 1.0), (4, 1.0), (5, 1.0)],
}


def test_five_batches_with_validation_at_three_and_five() -> None:
    assert logged(**FIVE) == EXPECTED


def test_the_same_through_the_programs_own_writer() -> None:
    class Writing(Logged):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            writer = context.get_tensorboard_writer()
            assert context.get_tensorboard_writer() is writer
            writer.add_scalar("mine", 7.0, 1)

    found = logged(base=Writing, **FIVE)
    assert found.pop("mine") == [(1, 7.0)]
    assert found == EXPECTED


def test_a_writer_asked_for_during_training_is_used_from_then_on() -> None:
    class Late(Logged):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            if batch_idx == 3:
                self.context.get_tensorboard_writer().add_scalar("mine", 7.0, batch_idx)
            return super().train_batch(batch, epoch_idx, batch_idx)

    found = logged(base=Late, **FIVE)
    assert found.pop("mine") == [(3, 7.0)]
    assert {tag: sorted(rows) for tag, rows in found.items()} == EXPECTED


@pytest.mark.parametrize("through", ["argument", "setter"])
def test_it_can_be_switched_off(through: str) -> None:
    class Off(Logged):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            if through == "setter":
                context.set_enable_tensorboard_logging(False)

    options = {"enable_tensorboard_logging": False} if through == "argument" else {}
    assert logged(base=Off, options=options, **FIVE) == {}


def test_names_of_validation_metrics() -> None:
    members = {"validated": staticmethod(lambda: {"loss": 1.0, "val_accuracy": 2.0, "validity": 3.0, "Val": 4.0})}
    found = logged(members, max_length=pytorch.Batch(1))
    assert {tag for tag in found if "loss" not in tag or "val" in tag} - {"Determined/total"} == {
        "Determined/val_loss",
        "Determined/val_accuracy",
        "Determined/validity",
        "Determined/val_Val",
    }


def test_which_training_values_are_written() -> None:
    kinds = {
        "int": 1,
        "float": 1.5,
        "bool": True,
        "numpy": np.float32(2.5),
        "0-d": np.array(3),
        "tensor": torch.tensor(4.0),
        "shape (1,)": torch.tensor([5.0]),
        "vector": [1.0, 2.0],
        "text": "text",
        "none": None,
        "complex": torch.tensor(1j),
        "too large": 10**400,
        "nan": float("nan"),
    }
    found = logged({"trained": staticmethod(lambda i: dict(kinds))}, max_length=pytorch.Batch(1))
    written = {tag.removeprefix("Determined/"): rows for tag, rows in found.items()}
    assert np.isnan(written.pop("nan")[0][1])
    assert written == {
        "int": [(0, 1.0)],
        "float": [(0, 1.5)],
        "bool": [(0, 1.0)],
        "numpy": [(0, 2.5)],
        "0-d": [(0, 3.0)],
        "tensor": [(0, 4.0)],
        "total": [(1, 1.0)],
        "val_loss": [(1, 5.0)],
    }


def test_batches_with_a_number_are_written_and_those_without_left_out() -> None:
    trained = staticmethod(lambda i: {"m": i if i % 2 else None})
    assert logged({"trained": trained}, max_length=pytorch.Batch(4))["Determined/m"] == [(1, 1.0), (3, 3.0)]


def test_a_resumed_run_continues_at_its_batch(data_home: Path) -> None:
    from tests.helpers.trials import checkpoints

    logged(max_length=pytorch.Batch(3))
    latest = str(checkpoints(data_home)[-1])
    assert logged(max_length=pytorch.Batch(5), latest_checkpoint=latest)["Determined/loss"] == [(3, 30.0), (4, 40.0)]


def test_many_metrics_and_long_names() -> None:
    names = [f"metric {i}" for i in range(1000)] + ["n" * 5000, "m" * 5000]
    trained = staticmethod(lambda i: {name: float(number + i) for number, name in enumerate(names)})
    found = logged({"trained": trained}, max_length=pytorch.Batch(2))
    for number, name in enumerate(names):
        assert found[f"Determined/{name}"] == [(0, number), (1, number + 1)]


# The file format


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300),
            st.integers(0, 2**41),
            st.floats(width=32, allow_nan=False),
        ),
        max_size=20,
    )
)
def test_rows_come_back_as_written(rows: list[tuple[str, int, float]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as home:
        writer = EventFileWriter(Path(home) / "below")
        assert not (Path(home) / "below").exists(), "nothing is made before the first write"
        writer.add_scalars(rows)
        writer.close()
        expected: Scalars = {}
        for tag, step, value in rows:
            expected.setdefault(tag, []).append((step, value))
        assert scalars(Path(home)) == expected


def test_a_matrix_comes_back_as_written(tmp_path: Path) -> None:
    writer = EventFileWriter(tmp_path)
    values = np.arange(300.0).reshape(100, 3)
    writer.add_series(["a", "b", "c"], np.arange(1000, 1100), values)
    writer.flush()
    found = scalars(tmp_path)
    for column, tag in enumerate("abc"):
        assert found[tag] == [(1000 + row, values[row, column]) for row in range(100)]
    writer.close()


def test_numbers_too_large_for_the_format_are_infinite(tmp_path: Path) -> None:
    writer = EventFileWriter(tmp_path)
    writer.add_scalars([("big", 0, 1e300), ("small", 0, -1e300)])
    writer.close()
    assert scalars(tmp_path) == {"big": [(0, float("inf"))], "small": [(0, float("-inf"))]}


def test_tags_that_are_no_text_do_not_stop_anything(tmp_path: Path) -> None:
    writer = EventFileWriter(tmp_path)
    writer.add_scalars([("half \ud800 of a pair", 0, 1.0)])
    writer.close()
    assert scalars(tmp_path) == {"half ? of a pair": [(0, 1.0)]}


# The metric writers of the old harness


class Collecting(MetricWriter):
    def __init__(self) -> None:
        self.rows: list[Any] = []

    def add_scalar(self, name: str, value: Any, step: int) -> None:
        self.rows.append((name, value, step))

    def reset(self) -> None:
        self.rows.append("reset")

    def flush(self) -> None:
        self.rows.append("flush")


def test_batch_metric_writer_follows_the_same_rules() -> None:
    writer = Collecting()
    batch_writer = BatchMetricWriter(writer)
    batch_writer.on_train_step_end(5, {"loss": 1.5, "reduced": 9}, [{"loss": 1.0, "x": "no"}, {"loss": 2.0, "x": "no"}])
    assert writer.rows == [
        ("Determined/loss", 1.0, 3),
        ("Determined/loss", 2.0, 4),
        ("Determined/reduced", 9, 5),
        "flush",
    ]
    writer.rows.clear()
    batch_writer.on_validation_step_end(
        5,
        {
            "loss": np.array(1.0),
            "val_x": 2,
            "vector": np.ones(2),
            "none": None,
            "big": 10**400,
            "complex": np.array(1j),
        },
    )
    assert writer.rows == [("Determined/val_loss", 1.0, 5), ("Determined/val_x", 2, 5), "flush"]


def test_metric_writer_is_abstract() -> None:
    with pytest.raises(TypeError):
        MetricWriter()  # type: ignore[abstract]


def test_torch_writer_writes_into_the_runs_directory() -> None:
    with pytorch.init() as context:
        with pytest.warns(FutureWarning, match="TorchWriter"):
            writer = TorchWriter()
        writer.add_scalar("a", 1.0, 1)
        writer.reset()
        writer.add_scalar("a", 2.0, 2)
        writer.flush()
        path = Path(context.get_tensorboard_path())
        assert scalars(path) == {"a": [(1, 1.0), (2, 2.0)]}
        assert len(list(path.glob("*tfevents*"))) == 2, "reset closes a file, and the next write opens another"
        writer.writer.add_image("image", torch.zeros(3, 2, 2))
        writer.writer.close()


def test_torch_writer_outside_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.warns(FutureWarning, match="TorchWriter"):
        writer = TorchWriter()
    assert Path(writer.writer.log_dir) == directory.current()
    assert directory.current().parent == tmp_path
    assert directory.current().name.startswith("tensorboard-")
    assert directory.current().name.endswith("-0")
    monkeypatch.setenv("RANK", "3")
    assert directory.current().name.endswith("-3")
    writer.writer.close()


def test_log_tb_metrics_by_its_old_name(tmp_path: Path) -> None:
    writer = Collecting()
    pytorch._log_tb_metrics(writer, "val", 4, {"loss": 1.0})
    pytorch._log_tb_metrics(writer, "train", 4, {"loss": 1.0, "r": 2.0}, [{"loss": 1.0}])
    assert writer.rows == [("Determined/val_loss", 1.0, 4), ("Determined/loss", 1.0, 3), ("Determined/r", 2.0, 4)]
