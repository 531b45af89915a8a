"""Save and restore parameters that an optimizer trains but that belong to no wrapped model.

They have no names, so they are identified by parameter group and position.
"""

from __future__ import annotations

import logging
from typing import Any

import torch

from determined.errors import InvalidCheckpointException
from determined.sentences import first_few

logger = logging.getLogger("determined.pytorch")

KEY = "outside_parameters"  # in a checkpoint: for each optimizer, a list of group, position and value

# A model may have thousands of parameters.
_MOST_SHOWN = 10


def take(models: list[torch.nn.Module], optimizers: list[torch.optim.Optimizer]) -> list[list[dict[str, Any]]]:
    """Return these parameters for each optimizer; those of lazy modules that have no value yet are left out."""
    # By identity: parameters compare element by element.
    inside = {id(parameter) for model in models for parameter in model.parameters()}
    return [
        [
            {"group": number, "position": position, "value": parameter.detach()}
            for number, group in enumerate(optimizer.param_groups)
            for position, parameter in enumerate(group["params"])
            if id(parameter) not in inside and not isinstance(parameter, torch.nn.UninitializedParameter)
        ]
        for optimizer in optimizers
    ]


def warn(models: list[torch.nn.Module], optimizers: list[torch.optim.Optimizer], ranks: int) -> None:
    """Log one warning that lists these parameters by shape, if there are any."""
    found = [
        f"optimizer {number}, group {one['group']}, position {one['position']}: shape {tuple(one['value'].shape)}"
        for number, mine in enumerate(take(models, optimizers))
        for one in mine
    ]
    if not found:
        return
    more = [f"and {len(found) - _MOST_SHOWN} more"] if len(found) > _MOST_SHOWN else []
    logger.warning(
        "%d parameters of wrapped optimizers belong to no wrapped model:\n  %s\nCheckpoints hold them, but not the "
        "buffers of their modules%s; pass the modules to context.wrap_model",
        len(found),
        "\n  ".join(found[:_MOST_SHOWN] + more),
        ", and they are not synchronized between the ranks" if ranks > 1 else "",
    )


def put_back(
    stored: Any, models: list[torch.nn.Module], optimizers: list[torch.optim.Optimizer], checkpoint: str
) -> None:
    """Restore these parameters from what `take` returned, or None if an older release saved the checkpoint."""
    mine = take(models, optimizers)
    if stored is None:
        if any(mine):
            logger.warning(
                "checkpoint %s holds no values for the parameters outside of wrapped models; they keep their initial "
                "values",
                checkpoint,
            )
        return
    # Position is their only name, so a changed order or shape must be refused instead of loading the wrong values.
    if not _is_valid(stored) or [_places(one) for one in stored] != [_places(one) for one in mine]:
        raise InvalidCheckpointException(
            f"checkpoint {checkpoint} holds other parameters outside of wrapped models than the trial has: "
            f"{_listed(stored)} in the checkpoint, {_listed(mine)} in the trial (optimizer, group, position, shape)"
        )
    # An in-place change of a leaf that requires gradients is refused while gradients are recorded.
    with torch.no_grad():
        for theirs, ours in zip(stored, mine, strict=True):
            for saved, current in zip(theirs, ours, strict=True):
                current["value"].copy_(saved["value"])


def _is_valid(stored: Any) -> bool:
    """Return whether `stored` has the form that `take` returns."""
    return isinstance(stored, list) and all(
        isinstance(optimizer, list)
        and all(isinstance(one, dict) and isinstance(one.get("value"), torch.Tensor) for one in optimizer)
        for optimizer in stored
    )


def _places(optimizer: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return group, position and shape of each parameter."""
    return [(one.get("group"), one.get("position"), tuple(one["value"].shape)) for one in optimizer]


def _listed(stored: Any) -> str:
    """Return a text that lists the parameters."""
    if not _is_valid(stored):
        return "no list of them"
    places = [(number, *place) for number, optimizer in enumerate(stored) for place in _places(optimizer)]
    return first_few(list(map(str, places)), _MOST_SHOWN) or "none"
