"""Parameters that an optimizer trains and that belong to no wrapped model."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from determined import pytorch
from determined.errors import InvalidCheckpointException
from tests.helpers.trials import LineTrial, checkpoints, fit


class Outside(LineTrial):
    """A head that is not wrapped, trained by an optimizer with two groups."""

    sizes = (1, 2)

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.head = torch.nn.Linear(*self.sizes)
        self.scale = torch.nn.Parameter(torch.rand(()))
        context.optimizers.clear()
        groups: list[dict[str, Any]] = [
            {"params": [*self.model.parameters(), self.scale]},
            {"params": [*self.head.parameters()], "lr": 0.01},
        ]
        self.optimizer = context.wrap_optimizer(torch.optim.Adam(groups, lr=0.05))

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        self.batch_indices.append(batch_idx)
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.head(self.model(x)).sum(1, keepdim=True) * self.scale, y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def outside(self) -> list[torch.Tensor]:
        return [self.scale, *self.head.parameters()]


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING and "no wrapped" in one.msg]


def test_they_survive_a_restart_bit_for_bit(data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = fit(Outside, max_length=pytorch.Batch(7), checkpoint_period=pytorch.Batch(4))
    (message,) = warnings_in(caplog)
    assert "3 parameters of wrapped optimizers belong to no wrapped model" in message
    for line in (
        "optimizer 0, group 0, position 1: shape ()",
        "optimizer 0, group 1, position 0: shape (2, 1)",
        "optimizer 0, group 1, position 1: shape (2,)",
        "buffers",
    ):
        assert line in message
    first = checkpoints(data_home)[0]
    rest = fit(Outside, seed=9, max_length=pytorch.Batch(7), latest_checkpoint=first.name)
    assert rest.batch_indices == [4, 5, 6]
    for mine, theirs in zip(rest.outside(), whole.outside(), strict=True):
        assert torch.equal(mine, theirs)
    assert torch.equal(rest.weight, whole.weight)
    state = torch.load(first / "state_dict.pth", weights_only=True)
    assert [one["position"] for one in state["outside_parameters"][0]] == [1, 0, 1]


def test_other_parameters_than_then_are_refused(data_home: Path) -> None:
    fit(Outside, max_length=pytorch.Batch(1))
    (checkpoint,) = checkpoints(data_home)

    class Wider(Outside):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            self.optimizer.param_groups[1]["params"] = [*torch.nn.Linear(1, 2).parameters()][::-1]

    with pytest.raises(InvalidCheckpointException, match=rf"checkpoint {checkpoint.name} .*other parameters outside"):
        fit(Wider, max_length=pytorch.Batch(2), latest_checkpoint=checkpoint.name)


def test_a_checkpoint_without_them_says_so(data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    fit(Outside, max_length=pytorch.Batch(1))
    (checkpoint,) = checkpoints(data_home)
    (checkpoint / "manifest.json").unlink()
    (checkpoint / "trial_state.json").unlink()  # as an earlier release would have left it
    state = torch.load(checkpoint / "state_dict.pth", weights_only=True)
    del state["outside_parameters"]
    torch.save(state, checkpoint / "state_dict.pth")
    fit(Outside, max_length=pytorch.Batch(1), latest_checkpoint=checkpoint)
    assert f"checkpoint {checkpoint} holds no values for the parameters outside of wrapped models" in caplog.text


def test_a_usual_trial_has_none(data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    fit(LineTrial, max_length=pytorch.Batch(1))
    assert warnings_in(caplog) == []
    (checkpoint,) = checkpoints(data_home)
    assert "outside_parameters" not in torch.load(checkpoint / "state_dict.pth", weights_only=True)


def test_one_without_values_yet_is_saved_when_it_has_them(data_home: Path) -> None:
    class Lazy(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            self.head = torch.nn.LazyLinear(1)
            self.optimizer.add_param_group({"params": [*self.head.parameters()]})

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            x, y = batch
            loss = torch.nn.functional.mse_loss(self.head(self.model(x)), y)
            self.context.backward(loss)
            self.context.step_optimizer(self.optimizer)
            return {"loss": loss}

    trial = fit(Lazy, max_length=pytorch.Batch(2))
    (checkpoint,) = checkpoints(data_home)
    stored = torch.load(checkpoint / "state_dict.pth", weights_only=True)["outside_parameters"][0]
    assert torch.equal(stored[0]["value"], trial.head.weight)
    with pytest.raises(InvalidCheckpointException, match="other parameters outside"):
        fit(Lazy, max_length=pytorch.Batch(3), latest_checkpoint=checkpoint.name)
