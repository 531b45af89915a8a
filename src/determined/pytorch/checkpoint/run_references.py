"""Name the objects of a run that saved states may refer to, so that a resumed run finds its own objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from determined.pytorch.callbacks import Callbacks
from determined.pytorch.checkpoint.state_codec import References
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.ranks.data_parallel import bare


def references_of(context: PyTorchTrialContext, callbacks: Callbacks, trial: Any) -> References:
    """Return names for the trial, the context, the callbacks, and everything that the trial wrapped."""
    found = References(lambda: _tensors(context))
    found.add("trial", trial)
    found.add("context", context)
    found.add("context.experimental", context.experimental)
    found.add("context.distributed", context.distributed)
    found.add("core", context._core)
    # Nothing is registered for None, so a trial without a scaler has no such name.
    found.add("scaler", context._precision.scaler)
    for number, model in enumerate(context.models):
        found.add(f"models[{number}]", model)
        found.add(f"bare_models[{number}]", bare(model))
    for number, optimizer in enumerate(context.optimizers):
        found.add(f"optimizers[{number}]", optimizer)
    for number, scheduler in enumerate(context.lr_schedulers):
        found.add(f"lr_schedulers[{number}]", scheduler)
        found.add(f"torch_schedulers[{number}]", scheduler.scheduler)
    for name, callback in callbacks.by_name.items():
        found.add(f"callbacks[{name!r}]", callback)
    return found


def references_of_models(models: list[torch.nn.Module]) -> References:
    """Return names for models only, to load their weights without a run."""
    found = References()
    for number, model in enumerate(models):
        found.add(f"models[{number}]", model)
        found.add(f"bare_models[{number}]", bare(model))
    return found


def _tensors(context: PyTorchTrialContext) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a name for each parameter and buffer of the wrapped models and optimizers."""
    for number, model in enumerate(context.models):
        # Names of the bare model, so that a checkpoint does not depend on the number of ranks.
        for name, parameter in bare(model).named_parameters():
            yield f"models[{number}].{name}", parameter
        for name, buffer in bare(model).named_buffers():
            yield f"models[{number}].{name}", buffer
    for number, optimizer in enumerate(context.optimizers):
        # Parameters outside of wrapped models have no name, so group and position identify them.
        for place, group in enumerate(optimizer.param_groups):
            for position, parameter in enumerate(group["params"]):
                yield f"optimizers[{number}].param_groups[{place}][{position}]", parameter
