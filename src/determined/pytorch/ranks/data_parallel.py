"""Move a model to its device and, with several ranks, keep it equal on all of them through DDP."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from determined.pytorch.optimization.forward_signature import as_forward_of


class DistributedModel(DistributedDataParallel):
    """`DistributedDataParallel` that shows the attributes of the wrapped model and the signature of its forward."""

    def __init__(self, module: torch.nn.Module, *args: Any, **options: Any) -> None:
        super().__init__(module, *args, **options)
        self._take_signature()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle as a `DistributedModel`: the class created for one object cannot be found by its name."""
        reduced: Any = super().__reduce_ex__(protocol)
        _, _, *state = reduced
        return (_empty_model, (), *state)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._take_signature()

    def _take_signature(self) -> None:
        """Give this object its own subclass, whose `forward` has the signature of the wrapped model's."""

        def forward(self: DistributedDataParallel, *inputs: Any, **kwargs: Any) -> Any:
            return DistributedDataParallel.forward(self, *inputs, **kwargs)

        members = {"forward": as_forward_of(self.module, forward)}
        # A class per object, because `inspect.signature` reads the class and models differ.
        self.__class__ = type("DistributedModel", (DistributedModel,), members)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            # Before the model is registered, and while it is unpickled, the lookup below would recurse without end.
            if name == "module":
                raise
            return getattr(super().__getattr__("module"), name)


def _empty_model() -> DistributedModel:
    """Return a model without a state, which unpickling fills; a function, because pickle refers to it by name."""
    return DistributedModel.__new__(DistributedModel)


def bare(model: torch.nn.Module) -> torch.nn.Module:
    """Return the user's model without the DDP wrapper."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def place(
    model: torch.nn.Module,
    device: torch.device,
    ranks: int,
    *,
    compile: bool | dict[str, Any] = False,
    **ddp_options: Any,
) -> torch.nn.Module:
    """Move a model to the device and return it, wrapped in DDP with several ranks.

    With several ranks, all start with the weights of rank 0 and average their gradients.
    """
    model = model.to(device)
    if compile:
        # In place, so that the object, its class and the names in its state dict do not change.
        model.compile(**(compile if isinstance(compile, dict) else {}))
    if ranks == 1:
        return model
    if not any(parameter.requires_grad for parameter in model.parameters()):
        # A frozen model has no gradients to average, and torch refuses to wrap it.
        # Buffers as well: evaluation uses them, and DDP does not synchronize this model.
        for tensor in [*model.parameters(), *model.buffers()]:
            dist.broadcast(tensor.data, src=0)
        return model
    # torch takes device ids for CUDA only.
    return DistributedModel(model, device_ids=[device] if device.type == "cuda" else None, **ddp_options)


def sync_buffers(models: list[torch.nn.Module]) -> None:
    """Copy the buffers of rank 0 to all ranks now, in one place where all ranks are.

    DDP would do it in a collective in the next forward. But ranks validate different numbers of batches, some none, so
    that collective would not match; and inside an aggregation window no forward does it, so ranks would validate and
    resume with other buffers than those in the checkpoint.
    """
    for model in models:
        ddp: Any = model
        # Only with a flag and buffers does DDP synchronize at all; the user can switch it off by
        # `broadcast_buffers=False`.
        if isinstance(model, DistributedDataParallel) and ddp.broadcast_buffers and ddp.modules_buffers:
            with torch.no_grad():
                # Private: torch calls it only inside forward. `det doctor` checks that it exists.
                ddp._sync_buffers()
            # The buffers stay equal until the next forward of training; DDP then sets the flag again.
            ddp.require_forward_param_sync = False


def compress_gradients(models: list[torch.nn.Module], parameters: set[int]) -> None:
    """Exchange gradients in float16 for the models that own any of `parameters`, given by id."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    for model in models:
        if not isinstance(model, DistributedDataParallel) or model._comm_hooks:
            continue  # torch accepts one hook per model: keep that of its first optimizer, or the user's own
        if any(id(p) in parameters for p in model.parameters()):
            model.register_comm_hook(state=None, hook=fp16_compress_hook)


def set_sync(models: list[torch.nn.Module], sync: bool) -> None:
    """Set whether DDP exchanges gradients for this batch. DDP reads the flag in forward, so call it before."""
    for model in models:
        if isinstance(model, DistributedDataParallel):
            model.require_backward_grad_sync = sync
