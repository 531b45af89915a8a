"""A model on its device and, with several ranks, kept equal on all of them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from determined.pytorch.signatures import as_forward_of


class DistributedModel(DistributedDataParallel):
    """torch's data-parallel model, with the attributes of the model inside it and the signature of its forward."""

    def __init__(self, module: torch.nn.Module, *args: Any, **options: Any) -> None:
        super().__init__(module, *args, **options)
        self._take_signature()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle as a `DistributedModel`: a class made for one object cannot be found by its name."""
        reduced: Any = super().__reduce_ex__(protocol)
        _, _, *state = reduced
        return (_empty_model, (), *state)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._take_signature()

    def _take_signature(self) -> None:
        def forward(self: DistributedDataParallel, *inputs: Any, **kwargs: Any) -> Any:
            return DistributedDataParallel.forward(self, *inputs, **kwargs)  # type: ignore[no-untyped-call]

        members = {"forward": as_forward_of(self.module, forward)}
        self.__class__ = type("DistributedModel", (DistributedModel,), members)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "module":
                raise
            return getattr(super().__getattr__("module"), name)


def _empty_model() -> DistributedModel:
    return DistributedModel.__new__(DistributedModel)


def bare(model: torch.nn.Module) -> torch.nn.Module:
    """The model as the user made it."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def place(
    model: torch.nn.Module,
    device: torch.device,
    ranks: int,
    *,
    compile: bool | dict[str, Any] = False,
    **ddp_options: Any,
) -> torch.nn.Module:
    """Move `model` to its device; with several ranks, all start from the chief's weights and average gradients."""
    model = model.to(device)
    if compile:
        # In place, so that the object, its class and the names in its state dict stay what they are.
        model.compile(**(compile if isinstance(compile, dict) else {}))
    if ranks == 1:
        return model
    if not any(parameter.requires_grad for parameter in model.parameters()):
        # Nothing to average in a frozen model, and torch refuses to wrap one.
        for tensor in [*model.parameters(), *model.buffers()]:
            dist.broadcast(tensor.data, src=0)
        return model
    return DistributedModel(model, device_ids=[device] if device.type == "cuda" else None, **ddp_options)


def sync_buffers(models: list[torch.nn.Module]) -> None:
    """Give all ranks rank 0's buffers now, in step, as the next forward of each would do by a collective of its own.

    Ranks validate different numbers of batches, and some none at all. Inside an aggregation window no forward would do
    it: then ranks would validate, and go on after a checkpoint, with other buffers than those in the checkpoint.
    """
    for model in models:
        ddp: Any = model
        if isinstance(model, DistributedDataParallel) and ddp.broadcast_buffers and ddp.modules_buffers:
            with torch.no_grad():
                ddp._sync_buffers()
            ddp.require_forward_param_sync = False  # until the next forward of training


def compress_gradients(models: list[torch.nn.Module], parameters: set[int]) -> None:
    """Exchange gradients of the models that own any of `parameters` (by id) in float16."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    for model in models:
        if not isinstance(model, DistributedDataParallel) or model._comm_hooks:
            continue  # torch takes one hook: that of the model's first optimizer, or the user's own
        if any(id(p) in parameters for p in model.parameters()):
            model.register_comm_hook(state=None, hook=fp16_compress_hook)


def set_sync(models: list[torch.nn.Module], sync: bool) -> None:
    """Exchange gradients in this batch, or hold them back: DDP looks during forward, so say it before."""
    for model in models:
        if isinstance(model, DistributedDataParallel):
            model.require_backward_grad_sync = sync
