"""The files of a checkpoint, how they are written, and which states are rejected."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler

import determined
from determined import pytorch
from determined.user_code.program import Program
from tests.helpers.trials import LineTrial, checkpoints, fit, with_callbacks


def only(data_home: Path) -> Path:
    (directory,) = checkpoints(data_home)
    return directory


def read_json(file: Path) -> Any:
    return json.loads(file.read_text())


class TestFiles:
    def test_names_and_contents(self, data_home: Path, work_dir: Path) -> None:
        (work_dir / "model.py").write_text("x = 1\n")
        fit(
            LineTrial,
            max_length=pytorch.Batch(7),
            checkpoint_period=pytorch.Batch(3),
            hparams={"nested": {"a": None, "b": float("inf")}},
            options={"exp_conf": {"name": "n"}, "program": Program("script", work_dir / "model.py")},
        )
        first, *_, last = checkpoints(data_home)
        assert sorted(os.listdir(last)) == sorted(os.listdir(first))
        assert {"state_dict.pth", "trial_state.json", "load_data.json", "metadata.json", "code"} <= {*os.listdir(last)}

        metadata = read_json(last / "metadata.json")
        assert metadata["steps_completed"] == 7
        assert metadata["framework"] == f"torch-{torch.__version__}"
        assert metadata["format"] == "pickle"
        assert metadata["determined_version"] == determined.__version__

        load_data = read_json(last / "load_data.json")
        assert load_data["trial_type"] == "PyTorchTrial"
        assert load_data["trial_cls_spec"] == "tests.helpers.trials:LineTrial"
        assert load_data["is_trainer"] is True
        assert load_data["hparams"]["global_batch_size"] == 2
        assert load_data["experiment_config"] == {"name": "n"}

        state = read_json(last / "trial_state.json")
        expected = {"trial_id": 0, "last_ckpt": 7, "last_val": 7, "batches_trained": 7, "epochs_trained": 1}
        assert expected.items() <= state.items()

        assert (last / "code" / "model.py").read_text() == "x = 1\n"
        assert (last / "code").stat().st_mode & 0o777 == 0o700
        assert (last / "code" / "model.py").stat().st_mode & 0o777 == 0o400
        assert (first / "code" / "model.py").read_text() == "x = 1\n"

    def test_hparams_and_configuration_are_stored_independently(self, data_home: Path) -> None:
        fit(LineTrial, max_length=pytorch.Batch(1))
        load_data = read_json(only(data_home) / "load_data.json")
        assert load_data["hparams"]["lr"] == 0.1
        assert load_data["experiment_config"] is None

    def test_the_state_loads_without_running_code(self, data_home: Path) -> None:
        class Rich(LineTrial):
            def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
                self.scaler = context.wrap_scaler(torch.amp.GradScaler("cpu", enabled=False))
                super().__init__(context)
                context.wrap_lr_scheduler(
                    lr_scheduler.StepLR(self.optimizer, 1), pytorch.LRScheduler.StepMode.STEP_EVERY_EPOCH
                )

        class Remembering(pytorch.PyTorchCallback):
            def state_dict(self) -> dict[str, Any]:
                return {
                    "tensor": torch.ones(2),
                    "list": [1, 2.5, "text", None, True, (3, {4})],
                    "numpy": float(np.float32(1.5)),
                    "bytes": b"\x00\xff",
                    "long": 2**100,
                    "dict": {1: {"x": torch.float16}},
                    "size": torch.Size([1, 2]),
                    "complex": 1 + 2j,
                }

        fit(with_callbacks(Remembering(), base=Rich), max_length=pytorch.Batch(1))
        state = torch.load(only(data_home) / "state_dict.pth", weights_only=True)
        assert {
            "models_state_dict",
            "optimizers_state_dict",
            "lr_schedulers_state_dict",
            "callbacks",
            "rng_state",
            "scaler_state_dict",
        } <= {*state}
        assert [list(one) for one in state["models_state_dict"]] == [["weight"]]
        assert len(state["optimizers_state_dict"]) == len(state["lr_schedulers_state_dict"]) == 1
        assert state["scaler_state_dict"] == {}
        assert {"cpu_rng_state", "np_rng_state", "random_rng_state"} <= {*state["rng_state"]}
        stored = state["callbacks"]["a"]
        assert stored["list"] == [1, 2.5, "text", None, True, (3, {4})]
        assert (stored["numpy"], stored["bytes"], stored["long"], stored["complex"]) == (
            1.5,
            b"\x00\xff",
            2**100,
            1 + 2j,
        )

    def test_callbacks_may_add_files(self, data_home: Path) -> None:
        class Adding(pytorch.PyTorchCallback):
            uuid = ""

            def on_checkpoint_write_end(self, checkpoint_dir: str) -> None:
                assert (Path(checkpoint_dir) / "state_dict.pth").is_file()
                (Path(checkpoint_dir) / "mine.txt").write_text("mine")

            def on_checkpoint_upload_end(self, uuid: str) -> None:
                self.uuid = uuid

        adding = Adding()
        fit(with_callbacks(adding), max_length=pytorch.Batch(1))
        assert only(data_home).name == adding.uuid
        assert (only(data_home) / "mine.txt").read_text() == "mine"


SCHEDULERS: dict[str, Any] = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda epoch: 0.9),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [2, 4]),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 10),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3, cycle_momentum=False),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, total_iters=3), lr_scheduler.ExponentialLR(o, 0.9)], milestones=[3]
    ),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.LinearLR(o), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
}


@pytest.mark.parametrize("kind", SCHEDULERS)
def test_every_scheduler_of_torch_is_saved_and_continues(kind: str, data_home: Path) -> None:
    class Scheduled(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            self.rates: list[float] = []
            context.wrap_lr_scheduler(SCHEDULERS[kind](self.optimizer), pytorch.LRScheduler.StepMode.STEP_EVERY_BATCH)

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            self.rates.append(self.optimizer.param_groups[0]["lr"])
            return super().train_batch(batch, epoch_idx, batch_idx)

    whole = fit(Scheduled, max_length=pytorch.Batch(7), checkpoint_period=pytorch.Batch(4))
    rest = fit(Scheduled, max_length=pytorch.Batch(7), latest_checkpoint=checkpoints(data_home)[0].name)
    assert rest.rates == whole.rates[4:]
    assert len(set(whole.rates)) > 1


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "NAdam", "RAdam", "Adadelta"])
def test_optimizers_continue_exactly(kind: str, data_home: Path) -> None:
    class Optimized(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            context.optimizers.clear()
            extra = {"momentum": 0.9} if kind in ("SGD", "RMSprop") else {}
            self.optimizer = context.wrap_optimizer(
                getattr(torch.optim, kind)(self.model.parameters(), lr=0.01, **extra)
            )

    whole = fit(Optimized, max_length=pytorch.Batch(7), checkpoint_period=pytorch.Batch(4))
    rest = fit(Optimized, max_length=pytorch.Batch(7), latest_checkpoint=checkpoints(data_home)[0].name)
    assert torch.equal(rest.weight, whole.weight)


class TestWhatIsRefused:
    @pytest.mark.parametrize("name", ["hparams", "exp_conf"])
    def test_what_json_cannot_hold_is_known_before_the_first_batch(self, name: str) -> None:
        recursive: dict[str, Any] = {}
        recursive["x"] = recursive
        arguments: dict[str, Any] = {name: recursive}
        with pytest.raises((TypeError, ValueError), match=name):
            with pytorch.init(**arguments):
                raise AssertionError("not reached")


def test_saving_draws_nothing_from_the_global_generators() -> None:
    class Watching(pytorch.PyTorchCallback):
        before: Any = None

        def states(self) -> Any:
            numpys = np.random.get_state(legacy=False)
            return random.getstate(), json.dumps(numpys, default=np.ndarray.tolist), torch.get_rng_state().tolist()

        def on_training_workload_end(self, avg_metrics: Any, batch_metrics: Any) -> None:
            self.before = self.states()

        def on_checkpoint_upload_end(self, uuid: str) -> None:
            assert self.states() == self.before
            self.before = "compared"

    watching = Watching()
    fit(with_callbacks(watching), max_length=pytorch.Batch(1), checkpoint_policy="all")
    assert watching.before == "compared"
