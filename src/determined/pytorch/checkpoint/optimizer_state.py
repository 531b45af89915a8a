"""Load the state of an optimizer, including values that torch's `load_state_dict` would change or reject."""

from __future__ import annotations

from typing import Any

import torch

from determined.pytorch.checkpoint.state_codec import Decoder, Encoder, References, map_tensors

_NUMBERS = (bool, int, float, complex, type(None), torch.dtype, torch.device)


def load_optimizer_state(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Call `optimizer.load_state_dict(state)` so that every value is restored unchanged.

    torch copies the values of parameter groups, and rebuilds containers in the state of a parameter as
    `type(value)(items)`, which changes strings, arrays and named tuples or fails. Such values are wrapped in an opaque
    object during the call.
    """
    # The optimizer's own method or hooks must see the values themselves.
    if not _loads_like_torch(optimizer) or not _has_expected_form(state):
        optimizer.load_state_dict(state)
        return
    held = {
        **state,
        "state": {
            key: _with_opaque(values, _NUMBERS) if isinstance(values, dict) else values
            for key, values in state["state"].items()
        },
        "param_groups": [_with_opaque(group, (*_NUMBERS, str)) for group in state["param_groups"]],
    }
    optimizer.load_state_dict(held)
    for group in optimizer.param_groups:
        _release(group, None)
    for key, values in optimizer.state.items():
        if isinstance(values, dict):
            _release(values, key.device if isinstance(key, torch.Tensor) else None)


class _Opaque:
    """A wrapper around a value that torch neither inspects nor copies."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __deepcopy__(self, memo: dict[int, Any]) -> _Opaque:
        # torch deep-copies the parameter groups before it loads them; the value itself must arrive.
        return self


def _loads_like_torch(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether `load_state_dict` is torch's and has no hooks, which would see the wrapped values."""
    own = type(optimizer).load_state_dict is not torch.optim.Optimizer.load_state_dict
    # Private, since torch has no public way to ask for the hooks.
    hooks = optimizer._optimizer_load_state_dict_pre_hooks or optimizer._optimizer_load_state_dict_post_hooks
    return not own and not hooks


def _has_expected_form(state: Any) -> bool:
    """Return whether the state has the form that `load_state_dict` expects; if not, torch raises the error."""
    return (
        isinstance(state, dict)
        and isinstance(state.get("state"), dict)
        and isinstance(state.get("param_groups"), list)
        and all(isinstance(group, dict) for group in state["param_groups"])
    )


def _with_opaque(values: dict[Any, Any], unchanged: tuple[type, ...]) -> dict[Any, Any]:
    """Return the values with those that torch would change wrapped in `_Opaque`."""
    # "params" are indices that torch maps to parameters, and it must see them.
    return {
        key: one if key == "params" or _is_restored_unchanged(one, unchanged) else _Opaque(one)
        for key, one in values.items()
    }


def _is_restored_unchanged(value: Any, unchanged: tuple[type, ...]) -> bool:
    """Return whether torch restores such a value unchanged."""
    kind = type(value)
    if kind in unchanged or isinstance(value, torch.Tensor):
        return True
    if kind in (list, tuple):
        return all(_is_restored_unchanged(one, unchanged) for one in value)
    return kind is dict and all(_is_restored_unchanged(one, unchanged) for one in value.values())


def _release(values: dict[Any, Any], device: torch.device | None) -> None:
    """Replace each `_Opaque` value by its content, with tensors moved to `device`."""
    for key, one in values.items():
        if isinstance(one, _Opaque):
            # torch moves tensors to the device of their parameter, but it could not see those inside the wrapper.
            values[key] = one.value if device is None or device.type == "cpu" else _moved(one.value, device)


def _moved(value: Any, device: torch.device) -> Any:
    """Return the value with its tensors on the device of the parameter, where torch would put them, too."""
    references = References()
    tree = map_tensors(Encoder(references).encode(value), lambda tensor: tensor.to(device))
    return Decoder("in memory", references).decode(tree, value)
