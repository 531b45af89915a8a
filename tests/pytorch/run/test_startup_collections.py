"""Objects that exist at `pytorch.init()` are exempt from garbage collection until the first batch."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from determined import pytorch
from determined.pytorch.run import startup_collections


class Trial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        self.model = context.wrap_model(torch.nn.Linear(2, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.01))
        self.frozen: list[int] = []

    def data(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 2)), batch_size=2)

    build_training_data_loader = build_validation_data_loader = data

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        self.frozen.append(gc.get_freeze_count())
        loss = self.model(batch[0]).mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:  # type: ignore[override]  # batch_idx is optional
        return {"loss": self.model(batch[0]).mean()}


@pytest.fixture(autouse=True)
def nothing_frozen(data_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reset the state to that of a new process: `tests/conftest.py` and earlier runs of this process have frozen
    objects.
    """
    monkeypatch.setattr(startup_collections, "_program_has_frozen", False)
    were_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    yield
    gc.unfreeze()
    if were_frozen:
        gc.freeze()


def train() -> list[int]:
    with pytorch.init() as context:
        assert gc.get_freeze_count() > 0
        trial = Trial(context)
        pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(2), checkpoint_policy="none")
    return trial.frozen


def test_training_collects_as_before() -> None:
    assert train() == [0, 0]
    assert train() == [0, 0]


def test_a_run_without_training_ends_it() -> None:
    with pytorch.init():
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_objects_that_the_program_froze_stay_frozen() -> None:
    gc.freeze()
    assert all(count > 0 for count in train())
    assert gc.get_freeze_count() > 0
