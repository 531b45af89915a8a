"""Mistakes that train nothing or store something else get one warning, and errors begin with the fix."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from determined import pytorch
from tests.helpers.records import opened
from tests.helpers.trials import HPARAMS, LineTrial, checkpoints, fit, line, metrics


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


class NoBackward(LineTrial):
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        self.context.step_optimizer(self.optimizer)
        return {"loss": 1.0}


def test_no_gradient_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    fit(NoBackward, max_length=pytorch.Batch(4), checkpoint_policy="none")
    (warning,) = warnings_in(caplog)
    assert "no parameter of the optimizer (SGD) has a gradient" in warning
    assert "context.backward(loss)" in warning


def test_a_default_run_warns_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "determined"), pytorch.init(hparams=HPARAMS) as context:
        trainer = pytorch.Trainer(LineTrial(context), context)
        trainer.fit(max_length=pytorch.Batch(4), validation_period=pytorch.Batch(2))
    assert warnings_in(caplog) == []
    said = [record for record in caplog.records if "a checkpoint is saved after every validation" in record.message]
    assert [record.levelno for record in said] == [logging.INFO]


class OddMetrics(LineTrial):
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        super().train_batch(batch, epoch_idx, batch_idx)
        return {"loss": [1, 2, 3], "x": "abc", "z": 1j, "fine": torch.ones(1), "gap": None if batch_idx else 2.0}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:  # type: ignore[override]  # batch_idx is optional
        return {"validation_loss": 1.0, "each": np.array([1.0, 3.0]), "one": torch.tensor([4.0])}


def test_metrics_that_are_no_numbers_are_named_once(data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    fit(OddMetrics, max_length=pytorch.Batch(4), reporting_period=pytorch.Batch(1), validation_period=pytorch.Batch(2))
    said = [message for message in warnings_in(caplog) if "is not a number" in message]
    assert [message.partition(" as ")[0] for message in said] == [
        "train_batch() returned the metric 'loss'",
        "train_batch() returned the metric 'x'",
        "train_batch() returned the metric 'z'",
        "evaluate_batch() returned the metric 'each'",
    ]
    stored = metrics(data_home, "training")[-1]
    assert (stored["loss"], stored["x"], stored["z"]) == (2.0, None, None)
    assert metrics(data_home, "validation")[-1]["each"] == 2.0


class FullDataSet(LineTrial):
    evaluate_batch = pytorch.PyTorchTrial.evaluate_batch

    def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
        return {"loss": 1.0, "array": np.array(2.0), "label": "cat"}


def test_the_metrics_of_evaluate_full_dataset_too(caplog: pytest.LogCaptureFixture) -> None:
    fit(FullDataSet, max_length=pytorch.Batch(4), validation_period=pytorch.Batch(2))
    (warning,) = warnings_in(caplog)
    assert warning.startswith(
        "evaluate_full_dataset() returned the metric 'label' as str ('cat'), which is not a number"
    )


class NoBase:
    pass


def test_trainer_says_how_to_pass_a_trial() -> None:
    with pytorch.init(hparams=HPARAMS) as context:
        with pytest.raises(TypeError, match=r"^Trainer: pass an instance, Trainer\(LineTrial\(context\), context\)"):
            pytorch.Trainer(LineTrial, context)  # type: ignore[arg-type]
        for given in (NoBase, NoBase()):
            match = r"^Trainer: derive the trial from PyTorchTrial, as in `class NoBase\(determined.pytorch.PyTorchTria"
            with pytest.raises(TypeError, match=match):
                pytorch.Trainer(given, context)  # type: ignore[arg-type]


class TorchLoader(LineTrial):
    def build_training_data_loader(self) -> Any:
        return torch.utils.data.DataLoader(line(), batch_size=2)


def test_a_loader_of_torch() -> None:
    fix = r"^build_training_data_loader\(\): return determined.pytorch.DataLoader\(...\) instead of torch\.utils\..*"
    with pytest.raises(RuntimeError, match=fix + "with the same arguments"):
        fit(TorchLoader, max_length=pytorch.Batch(1))


def test_name_labels_notes_and_the_metric_are_recorded(data_home: Path) -> None:
    with pytorch.init(hparams=HPARAMS, name="mine", labels=["a", "b", "a"], notes="first\nsecond") as context:
        trainer = pytorch.Trainer(LineTrial(context), context)
        trainer.fit(max_length=pytorch.Batch(4), searcher_metric="val_loss", smaller_is_better=False)
    with opened(data_home) as store:
        (experiment,) = store.experiments.list()
    assert (experiment.name, experiment.labels, experiment.notes) == ("mine", ["a", "b"], "first\nsecond")
    assert (experiment.metric, experiment.smaller_is_better) == ("val_loss", False)
    assert experiment.best is not None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": "one"}, r"init: labels must be a list of texts, for example \['baseline'\], got 'one'"),
        ({"labels": [""]}, "labels must be a list of texts that are not empty"),
        ({"labels": [3]}, "labels must be a list of texts that are not empty, got 3"),
        ({"notes": 3}, "notes must be a text, got int"),
    ],
)
def test_labels_and_notes_are_checked(data_home: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message), pytorch.init(**given):
        raise AssertionError("opened")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("val_los", r"^Searcher metric 'val_los' is not among the validation metrics \(loss, array, label\)\."),
        ("label", r"^Searcher metric 'label' is not a number: 'cat'\."),
    ],
)
def test_a_searcher_metric_that_is_not_reported(name: str, problem: str) -> None:
    with pytorch.init(hparams=HPARAMS) as context:
        trainer = pytorch.Trainer(FullDataSet(context), context)
        with pytest.raises(RuntimeError, match=problem):
            trainer.fit(max_length=pytorch.Batch(2), validation_period=pytorch.Batch(2), searcher_metric=name)


class Wider(LineTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.other = context.wrap_model(torch.nn.Linear(1, context.get_hparam("width")))


def test_a_checkpoint_of_another_model_says_what_to_do(data_home: Path) -> None:
    fit(Wider, max_length=pytorch.Batch(2), hparams={**HPARAMS, "width": 2})
    (saved,) = checkpoints(data_home)
    with pytest.raises(RuntimeError, match="size mismatch") as caught:
        fit(Wider, max_length=pytorch.Batch(3), hparams={**HPARAMS, "width": 3}, latest_checkpoint=saved.name)
    (note,) = caught.value.__notes__
    assert note.startswith(f"Checkpoint {saved.name} does not fit a model of the trial: use the code and the hyperpara")
