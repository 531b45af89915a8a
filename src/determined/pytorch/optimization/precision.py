"""Mixed precision: autocast around a model's forward, and scaling of the loss."""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import logging
from typing import Any

import torch

from determined.errors import InvalidExperimentException, InvalidModelException
from determined.pytorch.optimization.forward_signature import as_forward_of

logger = logging.getLogger("determined.pytorch")


class Precision:
    """The gradient scaler in use, and whether this library applies it (`automatic`) or the program does."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.scaler: Any = None
        self.automatic = False
        self.apex_configured = False
        self.dtype: torch.dtype | None = None
        self._scale_bounds: tuple[float | None, float | None] = (None, None)
        self._stepped = False

    def wrap_scaler(self, scaler: Any, models_wrapped: bool) -> Any:
        """Register the program's scaler; raise InvalidExperimentException if it is too late or one is registered."""
        if self.scaler is not None:
            raise InvalidExperimentException("wrap_scaler: a scaler is wrapped already (use_amp() wraps one too)")
        # A wrapped model has been autocast, or not, already.
        if models_wrapped:
            raise InvalidExperimentException("wrap_scaler must be called before wrap_model")
        if self.apex_configured:
            raise InvalidExperimentException("wrap_scaler cannot be used together with configure_apex_amp")
        self.scaler = scaler
        return scaler

    def use_amp(self, models_wrapped: bool, dtype: torch.dtype | None = None) -> None:
        """Autocast every model wrapped from now on, and scale the loss and update the scaler automatically."""
        self.wrap_scaler(self._make_scaler(dtype), models_wrapped)
        self.automatic = True

    def use_apex_levels(
        self, opt_level: str, loss_scale: Any, min_scale: float | None, max_scale: float | None
    ) -> bool:
        """Apply an apex optimization level with torch.amp; return False for O0, which is full precision."""
        if opt_level not in ("O0", "O1", "O2", "O3"):
            raise InvalidExperimentException(f"configure_apex_amp: opt_level is O0, O1, O2 or O3, got {opt_level!r}")
        self.apex_configured = True
        if opt_level == "O0":
            logger.info("configure_apex_amp: opt_level O0 is full precision, nothing is changed")
            return False
        # Not through wrap_scaler: apex is configured after the models were wrapped.
        self.scaler = self._make_scaler(None, fixed_scale=_fixed_scale(loss_scale))
        self.automatic = True
        self._scale_bounds = (min_scale, max_scale)
        logger.warning(
            "configure_apex_amp: apex is not supported; opt_level %s is emulated by torch.amp with autocast to %s %s",
            opt_level,
            self.dtype,
            "and a gradient scaler" if self.scaler.is_enabled() else "(which needs no gradient scaler)",
        )
        return True

    def _make_scaler(self, dtype: torch.dtype | None, fixed_scale: float | None = None) -> Any:
        """Return a gradient scaler, enabled only for float16: bfloat16 has the range of float32."""
        kind = self._device.type
        self.dtype = dtype or (torch.float16 if kind == "cuda" else torch.bfloat16)
        # bfloat16 needs no scaling, and a disabled scaler passes losses and steps through unchanged.
        enabled = self.dtype is torch.float16
        if fixed_scale is not None:
            # This growth interval is never reached and the backoff factor is almost 1, so the scale stays fixed.
            return torch.amp.GradScaler(
                kind,
                init_scale=fixed_scale,
                growth_interval=2**31 - 1,
                backoff_factor=1.0 - 1e-9,
                enabled=enabled,
            )
        return torch.amp.GradScaler(kind, enabled=enabled)

    def autocast(self, model: torch.nn.Module) -> torch.nn.Module:
        """Make `model` run its forward under autocast; it stays the same object and an instance of its class."""
        assert self.dtype is not None
        return autocast_forward(model, self._device.type, self.dtype)

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss scaled by the scaler, or unchanged if the program scales it itself."""
        return self.scaler.scale(loss) if self.automatic else loss

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Step an optimizer through the scaler, which skips the step if gradients overflowed."""
        self.scaler.step(optimizer)
        self._stepped = True

    def after_batch(self) -> None:
        """Update the scale if an optimizer was stepped in this batch (torch refuses it otherwise)."""
        if not self._stepped:
            return
        self._stepped = False
        self.scaler.update()
        low, high = self._scale_bounds
        if self.scaler.is_enabled() and (low is not None or high is not None):
            self.scaler._scale.clamp_(min=low, max=high)  # private, but done on the device, so nothing waits for it


def _fixed_scale(loss_scale: Any) -> float | None:
    """Return a fixed loss scale, or None for a dynamic one."""
    if loss_scale is None or loss_scale == "dynamic":
        return None
    return float(loss_scale)


def autocast_forward(model: torch.nn.Module, device_type: str, dtype: torch.dtype) -> torch.nn.Module:
    """Replace the class of `model` by a subclass whose forward runs under autocast and returns float32 results."""
    if isinstance(model, torch.jit.ScriptModule):
        raise InvalidModelException(
            f"a ScriptModule ({model.original_name}) cannot be autocast; wrap the model it was scripted from"
        )
    own = type(model)

    def forward(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        """Run the model's own forward under autocast and return its results as float32."""
        # Only the forward: backward runs in the types that autocast chose for each operation.
        with torch.autocast(device_type, dtype=dtype):
            result = own.forward(self, *args, **kwargs)
        # In float32, because losses outside of the model would be computed in half precision.
        return to_float32(result)

    # A subclass instead of a patched instance: a deep copy, for example for averaged weights, must run its own forward.
    members = {"forward": as_forward_of(model, forward), "__module__": own.__module__}
    # The same object: optimizers and callbacks may already refer to the model or its parameters.
    model.__class__ = type(f"Autocast{own.__name__}", (own,), members)
    return model


# Once per type and process, since a model returns the same type for every batch.
_warned: set[type] = set()


def to_float32(data: Any) -> Any:
    """Return a model's result with half-precision tensors as float32, inside any containers."""
    if isinstance(data, torch.Tensor):
        return data.float() if data.dtype in (torch.float16, torch.bfloat16) else data
    if isinstance(data, collections.abc.MutableMapping):
        # A shallow copy keeps the class of outputs such as those of transformers.
        changed = copy.copy(data)
        changed.update({key: to_float32(item) for key, item in data.items()})
        return changed
    if isinstance(data, tuple):
        items = [to_float32(item) for item in data]
        return type(data)(*items) if hasattr(data, "_fields") else tuple(items)
    if isinstance(data, list):
        return [to_float32(item) for item in data]
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        filled: Any = copy.copy(data)
        for field in dataclasses.fields(data):
            # object.__setattr__ also works for frozen data classes.
            object.__setattr__(filled, field.name, to_float32(getattr(data, field.name)))
        return filled
    if not isinstance(data, (str, int, float, bool, type(None))) and type(data) not in _warned:
        _warned.add(type(data))
        logger.warning(
            "mixed precision: a model returned data of type %s, whose half-precision tensors (if any) stay as they are",
            type(data).__name__,
        )
    return data
