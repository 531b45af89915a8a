"""`PyTorchCallback`, the base class of users' callbacks, and `Callbacks`, which calls all callbacks of a trial."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import torch

logger = logging.getLogger("determined.pytorch")


class PyTorchCallback:
    """Base class of callbacks: override the hooks you need; by default each does nothing.

    Hooks run in the training process, on every rank unless noted otherwise, in the order of the dict returned by
    `PyTorchTrial.build_callbacks` (`on_trial_shutdown` in reverse order). A hook that raises ends the run. Hooks that
    run only on the chief must not call collectives: the other ranks do not take part.
    """

    def on_trial_startup(self, first_batch_idx: int, checkpoint_uuid: str | None) -> None:
        """Called before the data loaders are built.

        `first_batch_idx` is the number of batches already trained, `checkpoint_uuid` the checkpoint to be loaded (or
        None).
        """

    def on_training_start(self) -> None:
        """Called after the checkpoint was restored and before the first batch."""

    def on_training_epoch_start(self, epoch_idx: int) -> None:
        """Called before the first batch of each epoch; `epoch_idx` counts from 0."""

    def on_training_epoch_end(self, epoch_idx: int) -> None:
        """Called after the last batch of each epoch; `epoch_idx` counts from 0."""

    def on_training_workload_end(self, avg_metrics: dict[str, Any], batch_metrics: list[dict[str, Any]]) -> None:
        """Called after training metrics were reported.

        `avg_metrics` holds the averages since the previous report, `batch_metrics` one dict of metrics per batch.
        """

    def on_validation_start(self) -> None:
        """Called before each validation; the models are in evaluation mode."""

    def on_validation_epoch_start(self) -> None:
        """Called before the first validation batch; only if the trial defines `evaluate_batch`."""

    def on_validation_epoch_end(self, outputs: list[Any]) -> None:
        """Called after the last validation batch; `outputs` lists what `evaluate_batch` returned on this rank."""

    def on_validation_end(self, metrics: dict[str, Any]) -> None:
        """Called after each validation with the reduced metrics, which are the same on all ranks."""

    def on_checkpoint_load_start(self, checkpoint: dict[str, Any]) -> None:
        """Called after a checkpoint was read and before its state is loaded; the dict may be modified."""

    def on_checkpoint_save_start(self, checkpoint: dict[str, Any]) -> None:
        """Called on the chief before a checkpoint is written; the dict may be modified and extended."""

    def on_checkpoint_end(self, checkpoint_dir: str) -> None:
        """Deprecated: use `on_checkpoint_write_end`."""

    def on_checkpoint_write_end(self, checkpoint_dir: str) -> None:
        """Called on the chief after the files of a checkpoint were written; files may be added to the directory."""

    def on_checkpoint_upload_end(self, uuid: str) -> None:
        """Called after a checkpoint was stored; `uuid` is its id."""

    def on_trial_shutdown(self) -> None:
        """Called at the end of every `fit`, for any reason, so the trial is not necessarily finished."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state to store in a checkpoint; called on the chief, once before training and at every save."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""


class ClipGradsL2Norm(PyTorchCallback):
    """Clip the norm of all gradients together before each optimizer step, in trials of the first generation (0.12)."""

    def __init__(self, clip_value: float) -> None:
        self._clip_value = clip_value

    def on_before_optimizer_step(self, parameters: list[torch.nn.Parameter]) -> None:
        """Scale the gradients so that their total norm is at most `clip_value`."""
        torch.nn.utils.clip_grad_norm_(parameters, self._clip_value)


class ClipGradsL2Value(PyTorchCallback):
    """Clip each gradient to [-clip_value, clip_value] before each optimizer step, in trials of the first generation."""

    def __init__(self, clip_value: float) -> None:
        self._clip_value = clip_value

    def on_before_optimizer_step(self, parameters: list[torch.nn.Parameter]) -> None:
        """Clip each gradient value."""
        torch.nn.utils.clip_grad_value_(parameters, self._clip_value)


_DEPRECATED = {
    "on_checkpoint_end": "on_checkpoint_write_end",
    "on_train_step_start": "on_training_workload_end",
    "on_train_step_end": "on_training_workload_end",
    "on_validation_step_start": "on_validation_start",
    "on_validation_step_end": "on_validation_end",
}


class Callbacks:
    """All callbacks of a trial, by name.

    Which callbacks override which hook is looked up once and cached, because some hooks run often.
    """

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
        # Filled at the first call of each hook: looking up attributes for every epoch and workload would add up.
        self._hooks: dict[str, list[Callable[..., Any]]] = {}
        for hook, replacement in _DEPRECATED.items():
            if self.overrides(hook):
                warnings.warn(f"the callback hook {hook} is deprecated, use {replacement}", FutureWarning, stacklevel=2)

    def overrides(self, hook: str) -> bool:
        """Return whether any callback overrides `hook`."""
        return bool(self._overriding_functions(hook))

    def call(self, hook: str, *args: Any, **kwargs: Any) -> None:
        """Call `hook` of every callback that overrides it, in order."""
        for function in self._overriding_functions(hook):
            function(*args, **kwargs)

    def epoch_start(self, epoch_idx: int) -> None:
        """Call `on_training_epoch_start`; callbacks may define it without the argument `epoch_idx` (deprecated)."""
        for function in self._overriding_functions("on_training_epoch_start"):
            if _takes_nothing(function):
                function()
            else:
                function(epoch_idx)

    def start_up(self, first_batch_idx: int, checkpoint_uuid: Any, cleanup: ExitStack) -> None:
        """Call `on_trial_startup` of each callback, and register its `on_trial_shutdown` in `cleanup`.

        Registered only afterwards: a callback whose startup failed is not shut down. The stack calls the hooks in
        reverse order.
        """
        for callback in self:
            # Any object can be a callback, so none of the methods of the base class can be relied on.
            start = getattr(callback, "on_trial_startup", None)
            if callable(start):
                start(first_batch_idx, checkpoint_uuid)
            stop = getattr(callback, "on_trial_shutdown", None)
            if callable(stop):
                cleanup.push(_shutting_down(stop))

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all callbacks that have a `state_dict` method, by name."""
        return {
            name: callback.state_dict()
            for name, callback in self.by_name.items()
            if callable(getattr(callback, "state_dict", None))
        }

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Restore the stored state of each callback, and warn if one with its own `load_state_dict` has none."""
        for name, callback in self.by_name.items():
            if name in stored:
                if callable(getattr(callback, "load_state_dict", None)):  # a callback need not derive from the base
                    callback.load_state_dict(stored[name])
            elif own_hook(callback, "load_state_dict") is not None:
                logger.warning("the checkpoint holds no state for the callback %r, which starts without one", name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.by_name.values())

    def _overriding_functions(self, hook: str) -> list[Callable[..., Any]]:
        """Return the functions of the callbacks that override `hook`, cached."""
        # Also remembers that no callback overrides the hook, which is the usual case.
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
    """Return the callback's own function for `hook`, or None if it only inherits the empty one of the base class."""
    function = getattr(callback, hook, None)
    if not callable(function):
        return None
    base = getattr(PyTorchCallback, hook, None)
    return None if base is not None and getattr(function, "__func__", function) is base else function


def _takes_nothing(function: Callable[..., Any]) -> bool:
    """Return whether a function has no parameters, as `on_training_epoch_start` in releases before 0.17.9."""
    return not inspect.signature(function).parameters


def _shutting_down(stop: Callable[[], None]) -> Callable[..., bool]:
    """Return an exit callback that calls a shutdown hook.

    An exception of the hook is raised, unless another exception is already propagating: then it is logged.
    """

    def leave(kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        if error is None:
            stop()
        else:
            # The error that ended training is the one that the user must see.
            log_errors_of(stop)
        return False

    return leave


def log_errors_of(clean_up: Callable[[], None]) -> None:
    """Call `clean_up` and log an exception instead of raising it, so that it does not hide the original error."""
    try:
        clean_up()
    # Exception only: KeyboardInterrupt and SystemExit must still end the program.
    except Exception:
        logger.exception("cleaning up after training failed")
