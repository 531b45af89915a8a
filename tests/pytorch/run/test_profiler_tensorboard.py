"""Profiler windows and TensorBoard files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from determined import pytorch
from determined.tensorboard import directory
from determined.tensorboard.metric_writers.pytorch import TorchWriter
from tests.helpers.trials import LineTrial, fit

CPU = [torch.profiler.ProfilerActivity.CPU]


def scalars(path: Path) -> dict[str, list[tuple[int, float]]]:
    """Return all scalars below a directory, by tag."""
    found: dict[str, list[tuple[int, float]]] = {}
    for one in sorted({file.parent for file in path.rglob("events.out.tfevents.*")}):
        events = EventAccumulator(str(one), size_guidance={"scalars": 0}).Reload()
        for tag in events.Tags()["scalars"]:
            found.setdefault(tag, []).extend((event.step, event.value) for event in events.Scalars(tag))
    return found


class Profiled(LineTrial):
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = {}

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        context.set_profiler(*self.arguments, **self.options)


# Raised as an error inside torch's profiler, this warning of torch's own would crash the interpreter.
@pytest.mark.filterwarnings("ignore:.*Profiler clears events")
class TestProfiler:
    def test_scheduled_windows_are_written_once_each(self) -> None:
        schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
        trial = fit(
            type("Trial", (Profiled,), {"options": {"activities": CPU, "schedule": schedule}}),
            max_length=pytorch.Batch(8),
        )
        traces = list(trial.context.get_tensorboard_path().rglob("*.pt.trace.json"))
        assert len(traces) == 2
        assert trial.batch_indices == [*range(8)]

    def test_a_handler_of_the_users_own(self) -> None:
        ready: list[Any] = []
        schedule = torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=2)
        trial = fit(
            type("Trial", (Profiled,), {"options": {"schedule": schedule, "on_trace_ready": ready.append}}),
            max_length=pytorch.Batch(6),
        )
        assert len(ready) == 2
        assert list(trial.context.get_tensorboard_path().rglob("*.pt.trace.json")) == []

    def test_a_handler_that_fails_costs_its_trace_only(self, caplog: pytest.LogCaptureFixture) -> None:
        def fail(profiler: Any) -> None:
            raise OSError("no space left")

        # With a warm-up, torch's profiler crashes the interpreter when its handler raises.
        schedule = torch.profiler.schedule(wait=0, warmup=1, active=1)
        trial = fit(
            type("Trial", (Profiled,), {"options": {"schedule": schedule, "on_trace_ready": fail}}),
            max_length=pytorch.Batch(4),
        )
        assert trial.batch_indices == [0, 1, 2, 3]
        assert "no space left" in caplog.text

    def test_positional_arguments(self) -> None:
        trial = fit(type("Trial", (Profiled,), {"arguments": (CPU,)}), max_length=pytorch.Batch(2))
        assert len(list(trial.context.get_tensorboard_path().rglob("*.pt.trace.json"))) == 1

    def test_arguments_given_twice_or_too_many(self) -> None:
        with pytorch.init() as context:
            with pytest.raises(TypeError, match="activities"):
                context.set_profiler(CPU, activities=CPU)
            with pytest.raises(TypeError, match="set_profiler"):
                context.set_profiler(*[None] * 50)

    def test_nothing_is_written_into_the_working_directory(self, work_dir: Path) -> None:
        fit(type("Trial", (Profiled,), {"options": {"activities": CPU}}), max_length=pytorch.Batch(2))
        assert list(work_dir.iterdir()) == []


class Everything(LineTrial):
    """Numbers of all kinds, a reducer, and validation names with and without the prefix."""

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.seen = context.wrap_reducer(len, name="seen", for_validation=False)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        self.seen.update(1)
        super().train_batch(batch, epoch_idx, batch_idx)
        return {"loss": float(batch_idx), "whole": batch_idx, "text": "t", "vector": torch.ones(3), "nothing": None}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return {"val_loss": 1.5, "accuracy": 0.5}


class TestTensorBoard:
    def run(self, trial_class: type[Any] = Everything, **options: Any) -> Any:
        return fit(
            trial_class,
            max_length=pytorch.Batch(5),
            validation_period=pytorch.Batch(3),
            reporting_period=pytorch.Batch(2),
            options=options,
        )

    def test_tags_and_steps(self, work_dir: Path) -> None:
        trial = self.run()
        found = scalars(trial.context.get_tensorboard_path())
        assert found["Determined/loss"] == [(step, float(step)) for step in range(5)]
        assert found["Determined/whole"] == [(step, float(step)) for step in range(5)]
        assert found["Determined/seen"] == [(2, 2.0), (3, 1.0), (4, 1.0), (5, 1.0)]
        assert found["Determined/val_loss"] == [(3, 1.5), (5, 1.5)]
        assert found["Determined/val_accuracy"] == [(3, 0.5), (5, 0.5)]
        assert {*found} == {
            "Determined/loss",
            "Determined/whole",
            "Determined/seen",
            "Determined/val_loss",
            "Determined/val_accuracy",
        }
        assert list(work_dir.iterdir()) == []

    def test_switched_off(self) -> None:
        trial = self.run(enable_tensorboard_logging=False)
        assert scalars(trial.context.get_tensorboard_path()) == {}

        class Off(Everything):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                super().__init__(context)
                context.set_enable_tensorboard_logging(False)

        assert scalars(self.run(Off).context.get_tensorboard_path()) == {}

    def test_the_writer_is_made_once_and_shared_with_the_loop(self) -> None:
        class Writing(Everything):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                super().__init__(context)
                self.writer = context.get_tensorboard_writer()
                assert context.get_tensorboard_writer() is self.writer

            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
                self.writer.add_scalar("mine", 2.0, batch_idx)
                return super().train_batch(batch, epoch_idx, batch_idx)

        trial = self.run(Writing)
        path = trial.context.get_tensorboard_path()
        assert trial.writer.log_dir == str(path)
        assert len(list(path.rglob("events.out.tfevents.*"))) == 1
        found = scalars(path)
        assert found["mine"] == [(step, 2.0) for step in range(5)]
        assert found["Determined/loss"] == [(step, float(step)) for step in range(5)]
        assert found["Determined/val_loss"] == [(3, 1.5), (5, 1.5)]

    def test_what_was_written_is_flushed_when_the_block_ends(self) -> None:
        with pytorch.init() as context:
            context.get_tensorboard_writer().add_scalar("late", 1.0, 1)
        assert scalars(context.get_tensorboard_path()) == {"late": [(1, 1.0)]}

    def test_torch_writer_writes_where_the_context_does(self) -> None:
        class Old(Everything):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                super().__init__(context)
                self.old = TorchWriter()

            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
                self.old.add_scalar("old", 3.0, batch_idx)
                if batch_idx == 2:
                    self.old.reset()
                self.old.writer.add_scalar("through the writer", 4.0, batch_idx)
                self.old.flush()
                return super().train_batch(batch, epoch_idx, batch_idx)

        with pytest.warns(FutureWarning, match="get_tensorboard_writer"):
            trial = self.run(Old)
        trial.old.writer.close()
        found = scalars(trial.context.get_tensorboard_path())
        assert sorted(found["old"]) == [(step, 3.0) for step in range(5)]
        assert sorted(found["through the writer"]) == [(step, 4.0) for step in range(5)]

    def test_torch_writer_outside_a_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        with pytest.warns(FutureWarning):
            writer = TorchWriter()
        writer.add_scalar("alone", 1.0, 0)
        writer.flush()
        writer.writer.close()
        assert directory.current().parent == tmp_path
        assert directory.current().name.startswith("tensorboard-")
        assert scalars(directory.current()) == {"alone": [(0, 1.0)]}

    def test_log_tb_metrics(self, tmp_path: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(log_dir=str(tmp_path / "tb")) as writer:
            pytorch._log_tb_metrics(writer, "val", 7, {"loss": 1.0, "val_x": 2, "text": "t"})
            pytorch._log_tb_metrics(writer, "train", 7, {"loss": 1.0, "r": 5}, [{"loss": 0.5}, {"loss": 1.5}])
        assert scalars(tmp_path / "tb") == {
            "Determined/val_loss": [(7, 1.0)],
            "Determined/val_x": [(7, 2.0)],
            "Determined/loss": [(5, 0.5), (6, 1.5)],
            "Determined/r": [(7, 5.0)],
        }
