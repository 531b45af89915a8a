"""PyTorchCallback: code of the user's at moments of the loop; and the list that calls them all."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

logger = logging.getLogger("determined.pytorch")


class PyTorchCallback:
    """Override the hooks you want; each does nothing by default.

    Hooks run inside the training process, on every rank unless noted, in the order of the dict that
    `PyTorchTrial.build_callbacks` returns (`on_trial_shutdown` in reverse). A hook that raises ends the run. Hooks
    that only the chief runs must not call collectives.
    """

    def on_trial_startup(self, first_batch_idx: int, checkpoint_uuid: str | None) -> None:
        """Before the loaders are built: batches trained already, and the checkpoint about to be loaded."""

    def on_training_start(self) -> None:
        """After the checkpoint was restored, before the first batch."""

    def on_training_epoch_start(self, epoch_idx: int) -> None:
        """Before the first batch of each epoch."""

    def on_training_epoch_end(self, epoch_idx: int) -> None:
        """After the last batch of each epoch."""

    def on_training_workload_end(self, avg_metrics: dict[str, Any], batch_metrics: list[dict[str, Any]]) -> None:
        """After training metrics were reported: their averages, and the list of each batch's metrics."""

    def on_validation_start(self) -> None:
        """Before a validation; the models are in eval mode."""

    def on_validation_epoch_start(self) -> None:
        """Before the first validation batch (only with `evaluate_batch`)."""

    def on_validation_epoch_end(self, outputs: list[Any]) -> None:
        """After the last validation batch: this rank's list of what `evaluate_batch` returned."""

    def on_validation_end(self, metrics: dict[str, Any]) -> None:
        """After a validation: the reduced metrics, the same on all ranks."""

    def on_checkpoint_load_start(self, checkpoint: dict[str, Any]) -> None:
        """Right after a checkpoint was read; the dict may be edited."""

    def on_checkpoint_save_start(self, checkpoint: dict[str, Any]) -> None:
        """Before a checkpoint is written (chief only); the dict may be edited and extended."""

    def on_checkpoint_end(self, checkpoint_dir: str) -> None:
        """Deprecated: use `on_checkpoint_write_end`."""

    def on_checkpoint_write_end(self, checkpoint_dir: str) -> None:
        """After the files of a checkpoint were written (chief only); files may be added to the directory."""

    def on_checkpoint_upload_end(self, uuid: str) -> None:
        """After a checkpoint was stored."""

    def on_trial_shutdown(self) -> None:
        """At the end of `fit`, whatever the reason; it does not mean that the trial is finished."""

    def state_dict(self) -> dict[str, Any]:
        """Return what to remember in a checkpoint; called on the chief, once before training and at every save."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` returned."""


class ClipGradsL2Norm(PyTorchCallback):
    """Clips the norm of all gradients together before each optimizer step (first generation)."""

    def __init__(self, clip_value: float) -> None:
        self._clip_value = clip_value

    def on_before_optimizer_step(self, parameters: list[torch.nn.Parameter]) -> None:
        """Scale the gradients down to the norm."""
        torch.nn.utils.clip_grad_norm_(parameters, self._clip_value)


class ClipGradsL2Value(PyTorchCallback):
    """Clips each gradient to [-clip_value, clip_value] before each optimizer step (first generation)."""

    def __init__(self, clip_value: float) -> None:
        self._clip_value = clip_value

    def on_before_optimizer_step(self, parameters: list[torch.nn.Parameter]) -> None:
        """Cut each gradient off at the value."""
        torch.nn.utils.clip_grad_value_(parameters, self._clip_value)


_DEPRECATED = {
    "on_checkpoint_end": "on_checkpoint_write_end",
    "on_train_step_start": "on_training_workload_end",
    "on_train_step_end": "on_training_workload_end",
    "on_validation_step_start": "on_validation_start",
    "on_validation_step_end": "on_validation_end",
}


class Callbacks:
    """All callbacks of a trial. Which of them override which hook is found out once, not at every call."""

    def __init__(self, by_name: dict[str, Any]) -> None:
        if not isinstance(by_name, dict):
            raise TypeError(
                f"build_callbacks() must return a dict of names and callbacks, got {type(by_name).__name__}"
            )
        for name, callback in by_name.items():
            if not isinstance(name, str):
                raise TypeError(f"build_callbacks() must return a dict with names as keys, got {name!r}")
            if isinstance(callback, type):
                raise TypeError(
                    f"build_callbacks() must return callback objects: {name!r} is the class {callback.__name__}, "
                    f"write {callback.__name__}()"
                )
        self.by_name = by_name
        self._hooks: dict[str, list[Callable[..., Any]]] = {}
        for hook, replacement in _DEPRECATED.items():
            if self.overrides(hook):
                warnings.warn(f"the callback hook {hook} is deprecated, use {replacement}", FutureWarning, stacklevel=2)

    def overrides(self, hook: str) -> bool:
        return bool(self._of(hook))

    def call(self, hook: str, *args: Any, **kwargs: Any) -> None:
        """Call `hook` of every callback that has one of its own, in order."""
        for function in self._of(hook):
            function(*args, **kwargs)

    def epoch_start(self, epoch_idx: int) -> None:
        for function in self._of("on_training_epoch_start"):
            if _takes_nothing(function):
                function()
            else:
                function(epoch_idx)

    def state_dict(self) -> dict[str, Any]:
        """The state of every callback that has any, by name."""
        return {
            name: callback.state_dict()
            for name, callback in self.by_name.items()
            if callable(getattr(callback, "state_dict", None))
        }

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        for name, callback in self.by_name.items():
            if name in stored:
                if callable(getattr(callback, "load_state_dict", None)):  # a callback need not derive from the base
                    callback.load_state_dict(stored[name])
            elif own_hook(callback, "load_state_dict") is not None:
                logger.warning("the checkpoint holds no state for the callback %r; it starts afresh", name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.by_name.values())

    def _of(self, hook: str) -> list[Callable[..., Any]]:
        if hook not in self._hooks:
            found = (own_hook(callback, hook) for callback in self)
            self._hooks[hook] = [function for function in found if function is not None]
            if hook == "on_training_epoch_start" and any(map(_takes_nothing, self._hooks[hook])):
                warnings.warn(
                    "on_training_epoch_start() without the argument epoch_idx is deprecated",
                    FutureWarning,
                    stacklevel=2,
                )
        return self._hooks[hook]


def own_hook(callback: Any, hook: str) -> Callable[..., Any] | None:
    """The callback's own function for `hook`: None where it has none, or only the base class's empty one."""
    function = getattr(callback, hook, None)
    if not callable(function):
        return None
    base = getattr(PyTorchCallback, hook, None)
    return None if base is not None and getattr(function, "__func__", function) is base else function


def _takes_nothing(function: Callable[..., Any]) -> bool:
    return not inspect.signature(function).parameters
