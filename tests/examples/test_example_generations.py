"""One trial, written for different releases, gives the same training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from determined import pytorch
from determined.config.reading.load import load_yaml

EXAMPLE = Path(__file__).parents[2] / "examples" / "mnist_pytorch"
BATCHES = 12


class Recorder(pytorch.PyTorchCallback):
    """Stores every loss and every validation."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.validations: list[dict[str, float]] = []

    def on_training_workload_end(self, avg_metrics: dict[str, Any], batch_metrics: list[dict[str, Any]]) -> None:
        self.losses += [float(metrics["loss"]) for metrics in batch_metrics]

    def on_validation_end(self, metrics: dict[str, Any]) -> None:
        self.validations.append({name: float(metrics[name]) for name in ("validation_loss", "accuracy")})


def train(trial_class: type[pytorch.PyTorchTrial], *, pass_hparams: bool = False) -> Recorder:
    recorder = Recorder()
    config = load_yaml(EXAMPLE / "const.yaml")
    config["hyperparameters"] |= {"n_filters1": 8, "n_filters2": 8}
    recorded = type("Recorded", (trial_class,), {"build_callbacks": lambda self: {"recorder": recorder}})
    torch.manual_seed(7)
    with pytorch.init(hparams=config["hyperparameters"], exp_conf=config) as context:
        arguments = [config["hyperparameters"]] if pass_hparams else []
        trainer = pytorch.Trainer(recorded(context, *arguments), context)
        trainer.fit(
            max_length=pytorch.Batch(BATCHES),
            validation_period=pytorch.Batch(BATCHES // 2),
            reporting_period=pytorch.Batch(1),
            checkpoint_policy="none",
        )
    return recorder


@pytest.fixture(autouse=True)
def own_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(EXAMPLE)  # the code that is part of a checkpoint


def test_three_forms_one_training(load: Callable[[str, str], ModuleType]) -> None:
    second = train(load("mnist_pytorch", "model_def").MNistTrial)
    assert len(second.losses) == BATCHES
    assert len(second.validations) == 2

    first = train(load("mnist_pytorch", "model_def_g1").MNistTrial)
    third = train(load("mnist_pytorch", "train").MNistTrial, pass_hparams=True)
    assert first.losses == second.losses == third.losses
    assert first.validations == second.validations == third.validations


def test_one_seed_gives_one_training(load: Callable[[str, str], ModuleType]) -> None:
    trial_class = load("mnist_pytorch", "model_def").MNistTrial
    assert train(trial_class).losses == train(trial_class).losses


def test_without_a_configuration_the_default_data_are_used(load: Callable[[str, str], ModuleType]) -> None:
    module = load("mnist_pytorch", "model_def")
    with pytorch.init(hparams=load_yaml(EXAMPLE / "const.yaml")["hyperparameters"]) as context:
        assert module.MNistTrial(context).train_set.shape == (1, 24, 24)
