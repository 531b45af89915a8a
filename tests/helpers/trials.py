"""Tiny trials and their helpers, shared by several test files.

    trial = fit(LineTrial, max_length=pytorch.Batch(5))
    assert trial.batch_indices == [0, 1, 2, 3, 4]

`LineTrial` fits one weight to y = 2x over `RECORDS` records, `BATCH_SIZE` each batch; `Recorder` is a callback that
writes down every hook.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

import torch
from torch.utils.data import TensorDataset

from determined import pytorch
from determined.pytorch.run.initialize import open_context
from tests.helpers.records import checkpoints, metrics

__all__ = [
    "BATCH_SIZE",
    "EPOCH_LENGTH",
    "HPARAMS",
    "RECORDS",
    "LineTrial",
    "Recorder",
    "checkpoints",
    "fit",
    "line",
    "metrics",
    "with_callbacks",
]

RECORDS = 12
BATCH_SIZE = 2
EPOCH_LENGTH = RECORDS // BATCH_SIZE

HPARAMS = {"global_batch_size": BATCH_SIZE, "lr": 0.1}

T = TypeVar("T", bound=pytorch.PyTorchTrial)


def line(records: int = RECORDS) -> TensorDataset:
    x = torch.arange(1.0, records + 1).unsqueeze(1) / records
    return TensorDataset(x, 2 * x)


class LineTrial(pytorch.PyTorchTrial):
    """One weight, plain SGD; records the arguments of its calls."""

    callbacks: dict[str, Any] = {}
    optimizer: torch.optim.Optimizer

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        self.model = context.wrap_model(self.make_model())
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))
        self.batch_indices: list[int] = []
        self.epoch_indices: list[int] = []
        self.records: list[list[float]] = []

    def make_model(self) -> torch.nn.Module:
        return torch.nn.Linear(1, 1, bias=False)

    @property
    def weight(self) -> torch.Tensor:
        """Return the weight of a model that is one linear layer."""
        return cast(torch.Tensor, self.model.weight)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        self.batch_indices.append(batch_idx)
        self.epoch_indices.append(epoch_idx)
        x, y = batch
        self.records.append([round(value * RECORDS) for value in x.flatten().tolist()])
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        return {"val_loss": torch.nn.functional.mse_loss(self.model(x), y)}

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(line(), batch_size=self.context.get_per_slot_batch_size())

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(line(), batch_size=self.context.get_per_slot_batch_size())

    def build_callbacks(self) -> dict[str, Any]:
        return self.callbacks


class Recorder(pytorch.PyTorchCallback):
    """Appends every hook to `calls`, as (name, arguments); several may share one list."""

    def __init__(self, calls: list[Any] | None = None, name: str = "") -> None:
        self.calls: list[Any] = [] if calls is None else calls
        self._name = name

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def _note(self, hook: str, *arguments: Any) -> None:
        self.calls.append((f"{self._name}{hook}", arguments))


_NOT_RECORDED = {"state_dict", "load_state_dict", "on_checkpoint_end"}


def _recording(hook: str) -> Callable[..., None]:
    def record(self: Recorder, *args: Any, **kwargs: Any) -> None:
        self._note(hook, *args, *kwargs.values())

    return record


for _hook in [name for name in vars(pytorch.PyTorchCallback) if not name.startswith("_")]:
    if _hook not in _NOT_RECORDED:
        setattr(Recorder, _hook, _recording(_hook))
# The loop inspects the signature of this hook.
setattr(  # noqa: B010  (an assignment would be one to a method, which mypy rejects)
    Recorder,
    "on_training_epoch_start",
    lambda self, epoch_idx: self._note("on_training_epoch_start", epoch_idx),
)


def fit(
    trial_class: Callable[[pytorch.PyTorchTrialContext], T],
    *,
    hparams: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    seed: int = 0,
    **fit_arguments: Any,
) -> T:
    """Train a fresh trial after `torch.manual_seed(seed)` and return it; `options` go to `pytorch.init`."""
    torch.manual_seed(seed)
    given = options or {}
    opened = open_context if "program" in given else pytorch.init  # only the library names the program of a run
    with opened(hparams={**HPARAMS, **(hparams or {})}, **given) as context:
        trial = trial_class(context)
        pytorch.Trainer(trial, context).fit(**{"checkpoint_policy": "none", **fit_arguments})
    return trial


@overload
def with_callbacks(*callbacks: Any) -> type[LineTrial]: ...


@overload
def with_callbacks(*callbacks: Any, base: type[T]) -> type[T]: ...


def with_callbacks(*callbacks: Any, base: type[pytorch.PyTorchTrial] = LineTrial) -> type[pytorch.PyTorchTrial]:
    """Return a subclass of the trial class with these callbacks, named a, b, c, ..."""
    return type(base.__name__, (base,), {"callbacks": dict(zip("abcdefgh", callbacks, strict=False))})
