"""fit(): its arguments, policies and length, and continuing from a checkpoint."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from determined import pytorch
from determined.errors import CheckpointNotFound
from tests.helpers.trials import (
    EPOCH_LENGTH,
    HPARAMS,
    LineTrial,
    Recorder,
    checkpoints,
    fit,
    line,
    metrics,
    with_callbacks,
)

BAD_PERIODS: list[Any] = [
    10,
    1.5,
    "10",
    [1],
    pytorch.TrainUnit(5),
    pytorch.Batch("10"),  # type: ignore[arg-type]
    pytorch.Batch(1.5),  # type: ignore[arg-type]
    pytorch.Batch(float("nan")),  # type: ignore[arg-type]
    pytorch.Batch(None),  # type: ignore[arg-type]
    pytorch.Epoch(b"1"),
    pytorch.Batch,
]


class Never(LineTrial):
    """Arguments are rejected before the first batch."""

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        raise AssertionError("a batch was trained")


class TestArguments:
    @pytest.mark.parametrize("name", ["checkpoint_period", "validation_period", "reporting_period"])
    @pytest.mark.parametrize("period", BAD_PERIODS, ids=repr)
    def test_periods(self, name: str, period: Any) -> None:
        with pytest.raises(TypeError, match=name):
            fit(Never, max_length=pytorch.Batch(1), **{name: period})

    def test_a_reporting_period_is_needed(self) -> None:
        with pytest.raises(TypeError, match="reporting_period"):
            fit(Never, max_length=pytorch.Batch(1), reporting_period=None)

    @pytest.mark.parametrize(
        "length",
        [5, 1.5, "5", [5], pytorch.TrainUnit(5), pytorch.Batch([5]), pytorch.Epoch(range(3)), *BAD_PERIODS[5:]],
    )
    def test_max_length(self, length: Any) -> None:
        with pytest.raises(TypeError, match="max_length"):
            fit(Never, max_length=length)

    def test_max_length_is_needed(self) -> None:
        with pytest.raises(ValueError, match="max_length"):
            fit(Never)

    @pytest.mark.parametrize("policy", [None, "BEST", "", "always", 1, ["all"]])
    def test_policy(self, policy: Any) -> None:
        with pytest.raises(ValueError, match="checkpoint_policy"):
            fit(Never, max_length=pytorch.Batch(1), checkpoint_policy=policy)

    @pytest.mark.parametrize(
        ("name", "error"),
        [
            ("", None),
            (".", None),
            ("..", None),
            (7, TypeError),
            (b"x", TypeError),
            ("a" * 5000, None),
            ("a\0b", None),
            ("a\nb", None),
            ("/a\0b", CheckpointNotFound),
            ("no-such-checkpoint", CheckpointNotFound),
            ("/no/such/checkpoint", CheckpointNotFound),
            ("/" + "a" * 5000, CheckpointNotFound),
            (Path("no/such/checkpoint"), CheckpointNotFound),
        ],
        ids=lambda value: repr(value)[:20],
    )
    def test_checkpoints_that_are_none(self, name: Any, error: type[Exception] | None) -> None:
        with pytest.raises(error or Exception) as raised:
            fit(Never, max_length=pytorch.Batch(1), latest_checkpoint=name)
        assert "checkpoint" in str(raised.value).splitlines()[0]
        assert raised.type.__name__.endswith(("Error", "Exception", "NotFound"))

    def test_a_link_in_the_storage_is_no_checkpoint(self, data_home: Path) -> None:
        fit(LineTrial, max_length=pytorch.Batch(1))
        (real,) = checkpoints(data_home)
        (real.parent / "linked").symlink_to(real)
        with pytest.raises(Exception, match=r"checkpoint linked.*link"):
            fit(Never, max_length=pytorch.Batch(2), latest_checkpoint="linked")

    def test_no_context_of_ours(self) -> None:
        with pytorch.init(hparams=HPARAMS) as context:
            trial = LineTrial(context)
            with pytest.raises(TypeError, match="context"):
                pytorch.Trainer(trial, None)  # type: ignore[arg-type]

    def test_configure_profiler_says_what_to_do_instead(self, caplog: pytest.LogCaptureFixture) -> None:
        with pytorch.init(hparams=HPARAMS) as context:
            pytorch.Trainer(LineTrial(context), context).configure_profiler()
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert "profiling_enabled" in caplog.text

    def test_an_epoch_of_a_loader_without_length(self) -> None:
        class Endless(LineTrial):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                super().__init__(context)
                context.experimental.disable_dataset_reproducibility_checks()

            def build_training_data_loader(self) -> Any:
                return (line()[:2] for _ in iter(int, 1))

        with pytest.raises(Exception, match=r"max_length.*length"):
            fit(Endless, max_length=pytorch.Epoch(1))
        trial = fit(Endless, max_length=pytorch.Batch(9), validation_period=pytorch.Epoch(1))
        assert trial.epoch_indices == [0] * 9


class Falling(LineTrial):
    """Reports validation metrics in a given order."""

    values = [5.0, 3.0, 3.0, 4.0, float("nan"), 2.0]

    def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
        return {"score": self.values[len(self.batch_indices) - 1], "word": "x"}

    evaluate_batch = pytorch.PyTorchTrial.evaluate_batch


class TestPolicies:
    def saved(self, data_home: Path, **arguments: Any) -> list[int]:
        fit(
            arguments.pop("trial", Falling),
            **{"max_length": pytorch.Batch(6), "validation_period": pytorch.Batch(1), **arguments},
        )
        import json

        return [json.loads((one / "metadata.json").read_text())["steps_completed"] for one in checkpoints(data_home)]

    def test_all(self, data_home: Path) -> None:
        assert self.saved(data_home, checkpoint_policy="all") == [1, 2, 3, 4, 5, 6]

    def test_none(self, data_home: Path) -> None:
        assert self.saved(data_home, checkpoint_policy="none") == [6]

    def test_none_with_a_period(self, data_home: Path) -> None:
        assert self.saved(data_home, checkpoint_policy="none", checkpoint_period=pytorch.Batch(4)) == [4, 6]

    def test_best_without_a_metric_is_all(self, data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, "determined.pytorch"):
            assert self.saved(data_home, checkpoint_policy="best") == [1, 2, 3, 4, 5, 6]
        assert "no searcher_metric given, so a checkpoint is saved after every validation" in caplog.text

    def test_best_is_strictly_better(self, data_home: Path) -> None:
        assert self.saved(data_home, checkpoint_policy="best", searcher_metric="score") == [1, 2, 6]

    def test_larger_is_better(self, data_home: Path) -> None:
        saved = self.saved(
            data_home,
            trial=type("Rising", (Falling,), {"values": [1.0, 2.0, 2.0, 3.0, float("nan"), 1.0]}),
            checkpoint_policy="best",
            searcher_metric="score",
            smaller_is_better=False,
        )
        assert saved == [1, 2, 4, 6]

    def test_the_best_value_is_remembered_over_a_restart(self, data_home: Path) -> None:
        best = {"checkpoint_policy": "best", "searcher_metric": "score"}
        assert self.saved(data_home, max_length=pytorch.Batch(3), **best) == [1, 2, 3]
        later = type("Later", (Falling,), {"values": [4.0, 4.0, 1.0]})
        uuid = checkpoints(data_home)[-1].name
        assert self.saved(data_home, trial=later, latest_checkpoint=uuid, **best) == [1, 2, 3, 6]
        # The last one is saved at the end in any case; the one before only if it is better than 3.
        uuid = checkpoints(data_home)[2].name
        later = type("Later", (Falling,), {"values": [2.0, 4.0, 1.0]})
        assert self.saved(data_home, trial=later, latest_checkpoint=uuid, **best) == [1, 2, 3, 6, 4, 6]

    @pytest.mark.parametrize("metric", ["missing", "word"])
    def test_a_metric_that_is_no_number(self, metric: str) -> None:
        with pytest.raises(RuntimeError, match=metric):
            fit(Falling, max_length=pytorch.Batch(1), checkpoint_policy="best", searcher_metric=metric)


class TestLength:
    def test_epochs(self) -> None:
        assert fit(LineTrial, max_length=pytorch.Epoch(2)).batch_indices == [*range(2 * EPOCH_LENGTH)]

    @pytest.mark.parametrize("length", [pytorch.Batch(0), pytorch.Batch(-3), pytorch.Epoch(0)])
    def test_nothing(self, length: pytorch.TrainUnit, data_home: Path) -> None:
        recorder = Recorder()
        trial = fit(with_callbacks(recorder), max_length=length, step_zero_validation=True)
        assert trial.batch_indices == []
        assert checkpoints(data_home) == []
        assert metrics(data_home, "validation") == []
        assert recorder.names == ["on_trial_startup", "on_training_start", "on_trial_shutdown"]

    def test_test_mode(self, data_home: Path) -> None:
        class Counting(LineTrial):
            evaluated = 0

            def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
                self.evaluated += 1
                return super().evaluate_batch(batch, batch_idx)

        trial = fit(Counting, max_length=pytorch.Batch(100), test_mode=True)
        assert (trial.batch_indices, trial.evaluated) == ([0], 1)
        assert len(checkpoints(data_home)) == 1
        assert fit(Counting, test_mode=True).batch_indices == [0]

    def test_fit_twice(self, data_home: Path) -> None:
        torch.manual_seed(0)
        recorder = Recorder()
        with pytorch.init(hparams=HPARAMS) as context:
            trial = with_callbacks(recorder)(context)
            trainer = pytorch.Trainer(trial, context)
            trainer.fit(max_length=pytorch.Batch(2), checkpoint_policy="none")
            between = trial.weight.item()
            trainer.fit(max_length=pytorch.Batch(3), checkpoint_policy="none")
        assert trial.batch_indices == [0, 1, 2, 3, 4]
        assert trial.records == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]
        assert trial.weight.item() != between
        assert recorder.names.count("on_trial_startup") == recorder.names.count("on_trial_shutdown") == 2
        assert [row["steps_completed"] for row in metrics(data_home, "validation")] == [2, 5]

    @pytest.mark.parametrize(
        ("period", "expected"),
        [
            (pytorch.Batch(3), [3, 6, 7]),
            (pytorch.Batch([1, 5]), [1, 5, 7]),
            (pytorch.Epoch(1), [6, 7]),
            (pytorch.Batch([]), [7]),
            (pytorch.Batch(range(0, 10, 4)), [4, 7]),
            (pytorch.Batch(0), [1, 2, 3, 4, 5, 6, 7]),
        ],
        ids=repr,
    )
    def test_periods(self, period: pytorch.TrainUnit, expected: list[int], data_home: Path) -> None:
        fit(LineTrial, max_length=pytorch.Batch(7), validation_period=period, checkpoint_period=period)
        assert [row["steps_completed"] for row in metrics(data_home, "validation")] == expected
        assert len(checkpoints(data_home)) == len(expected)

    def test_profiling_runs_and_says_nothing_wrong(self) -> None:
        assert fit(LineTrial, max_length=pytorch.Batch(2), profiling_enabled=True).batch_indices == [0, 1]


class TestResume:
    def test_five_then_to_eight_trains_exactly_three(self, data_home: Path) -> None:
        whole = fit(LineTrial, max_length=pytorch.Batch(8), validation_period=pytorch.Batch(4))
        first = fit(LineTrial, max_length=pytorch.Batch(5), validation_period=pytorch.Batch(4))
        assert first.batch_indices == [0, 1, 2, 3, 4]
        uuid = checkpoints(data_home)[-1].name
        recorder = Recorder()
        second = fit(
            with_callbacks(recorder),
            seed=99,
            max_length=pytorch.Batch(8),
            validation_period=pytorch.Batch(4),
            latest_checkpoint=uuid,
        )
        assert second.batch_indices == [5, 6, 7]
        assert second.epoch_indices == [0, 1, 1]
        assert first.records + second.records == whole.records
        assert torch.equal(second.weight, whole.weight)
        calls = [(name, args) for name, args in recorder.calls if "checkpoint" not in name and "valid" not in name]
        assert calls[0] == ("on_trial_startup", (5, uuid))
        assert calls[1] == ("on_training_start", ())
        assert calls[2] == ("on_training_epoch_end", (0,))  # the epoch had begun: no second start
        assert calls[3] == ("on_training_epoch_start", (1,))
        averages, rows = calls[4][1]
        assert (averages["batches"], averages["epochs"], len(rows)) == (8, 1, 3)
        assert recorder.names[:3] == ["on_trial_startup", "on_checkpoint_load_start", "on_training_start"]
        assert [row["steps_completed"] for row in metrics(data_home, "validation")] == [4, 8, 4, 5, 8]
        assert metrics(data_home, "validation")[-1] == metrics(data_home, "validation")[1]

    def test_shuffled_data_continue_with_any_new_seed(self, data_home: Path) -> None:
        class Shuffled(LineTrial):
            def build_training_data_loader(self) -> pytorch.DataLoader:
                return pytorch.DataLoader(line(), batch_size=2, shuffle=True)

        whole = fit(Shuffled, seed=3, max_length=pytorch.Batch(14))
        first = fit(Shuffled, seed=3, max_length=pytorch.Batch(8))
        uuid = checkpoints(data_home)[-1].name
        second = fit(Shuffled, seed=4, max_length=pytorch.Batch(14), latest_checkpoint=uuid)
        assert first.records + second.records == whole.records
        assert whole.records != fit(Shuffled, seed=4, max_length=pytorch.Batch(14)).records

    def test_already_at_the_end(self, data_home: Path) -> None:
        fit(LineTrial, max_length=pytorch.Batch(5))
        uuid = checkpoints(data_home)[-1].name
        for length in (pytorch.Batch(5), pytorch.Batch(3)):
            recorder = Recorder()
            trial = fit(with_callbacks(recorder), max_length=length, latest_checkpoint=uuid, step_zero_validation=True)
            assert trial.batch_indices == []
            assert recorder.names == [
                "on_trial_startup",
                "on_checkpoint_load_start",
                "on_training_start",
                "on_trial_shutdown",
            ]
        assert len(checkpoints(data_home)) == 1
        assert len(metrics(data_home, "validation")) == 1

    def test_saved_before_its_last_validation(self, data_home: Path) -> None:
        class Killed(LineTrial):
            def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fit(Killed, max_length=pytorch.Batch(5), checkpoint_period=pytorch.Batch(5))
        uuid = checkpoints(data_home)[-1].name
        trial = fit(LineTrial, max_length=pytorch.Batch(5), latest_checkpoint=uuid)
        assert trial.batch_indices == []
        assert [row["steps_completed"] for row in metrics(data_home, "validation")] == [5]

    @pytest.mark.parametrize("form", ["str", "path"])
    def test_by_its_directory(self, form: str, data_home: Path) -> None:
        fit(LineTrial, max_length=pytorch.Batch(2))
        directory = checkpoints(data_home)[-1]
        trial = fit(
            LineTrial,
            max_length=pytorch.Batch(3),
            latest_checkpoint=str(directory) if form == "str" else directory,
        )
        assert trial.batch_indices == [2]

    def test_another_model_is_a_runtime_error(self, data_home: Path) -> None:
        fit(LineTrial, max_length=pytorch.Batch(1))
        other = type("Other", (LineTrial,), {"make_model": lambda self: torch.nn.Linear(1, 1)})
        with pytest.raises(RuntimeError, match="bias"):
            fit(other, max_length=pytorch.Batch(2), latest_checkpoint=checkpoints(data_home)[0].name)

    def test_another_number_of_models(self, data_home: Path) -> None:
        fit(LineTrial, max_length=pytorch.Batch(1))

        class Two(LineTrial):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                super().__init__(context)
                context.wrap_model(torch.nn.Linear(1, 1))

        uuid = checkpoints(data_home)[0].name
        with pytest.raises(RuntimeError, match=uuid):
            fit(Two, max_length=pytorch.Batch(2), latest_checkpoint=uuid)

    def test_callbacks_get_their_state_back(self, data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
        class Counting(pytorch.PyTorchCallback):
            batches = 0

            def on_training_workload_end(self, avg_metrics: Any, batch_metrics: Any) -> None:
                self.batches += len(batch_metrics)

            def state_dict(self) -> dict[str, Any]:
                return {"batches": self.batches}

            def load_state_dict(self, state_dict: dict[str, Any]) -> None:
                self.batches = state_dict["batches"]

        class Editing(pytorch.PyTorchCallback):
            def on_checkpoint_load_start(self, checkpoint: dict[str, Any]) -> None:
                assert checkpoint["note"] == "added"
                checkpoint["models_state_dict"][0]["weight"].fill_(1.5)

            def on_checkpoint_save_start(self, checkpoint: dict[str, Any]) -> None:
                checkpoint["note"] = "added"

        fit(with_callbacks(Counting(), Editing()), max_length=pytorch.Batch(3))
        uuid = checkpoints(data_home)[-1].name
        counting = Counting()
        trial = fit(with_callbacks(counting, Editing()), max_length=pytorch.Batch(3), latest_checkpoint=uuid)
        assert counting.batches == 3
        assert trial.weight.item() == 1.5
        assert "callback" not in caplog.text
        renamed = type("Renamed", (LineTrial,), {"callbacks": {"other": Counting(), "e": Editing()}})
        fit(renamed, max_length=pytorch.Batch(3), latest_checkpoint=uuid)
        assert "'other'" in caplog.text

    def test_a_plain_object_that_only_gives_state(self, data_home: Path) -> None:
        class Plain:
            def state_dict(self) -> dict[str, Any]:
                return {"x": 1}

        fit(with_callbacks(Plain()), max_length=pytorch.Batch(1))
        uuid = checkpoints(data_home)[-1].name
        assert fit(with_callbacks(Plain()), max_length=pytorch.Batch(2), latest_checkpoint=uuid).batch_indices == [1]

    def test_every_generator_continues(self, data_home: Path) -> None:
        import random

        import numpy as np

        class Drawing(LineTrial):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                super().__init__(context)
                self.draws: list[Any] = []

            def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
                self.draws.append((random.random(), np.random.randn(), random.gauss(0, 1), torch.rand(()).item()))
                return super().train_batch(batch, epoch_idx, batch_idx)

        whole = fit(Drawing, max_length=pytorch.Batch(6), options={"seed": 1}, checkpoint_period=pytorch.Batch(1))
        first = fit(Drawing, max_length=pytorch.Batch(3), options={"seed": 1})
        uuid = checkpoints(data_home)[-1].name
        second = fit(Drawing, max_length=pytorch.Batch(6), options={"seed": 2}, latest_checkpoint=uuid)
        # Saving at every batch drew no random numbers, and the restart continued where the first run stopped.
        assert first.draws + second.draws == whole.draws


def test_reports_are_logged_with_their_full_values(caplog: pytest.LogCaptureFixture) -> None:
    class Exact(LineTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            return {"train_metric": 123.25}

        def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            return {"val_metric": 0.0123456789}

    logging.getLogger().setLevel(logging.INFO)
    fit(Exact, max_length=pytorch.Batch(1))
    messages = [record.getMessage() for record in caplog.records]
    assert any("train_metric" in text and "123.25" in text for text in messages)
    assert any("val_metric" in text and "0.0123456789" in text for text in messages)
