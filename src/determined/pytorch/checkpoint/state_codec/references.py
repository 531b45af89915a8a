"""`References`: names for objects of a run that a state refers to instead of containing them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch


class References:
    """Names of models, optimizers, schedulers, trial and context, and of the parameters of models.

    These objects are never written: a resumed run uses its own. Tensors are references only inside an object, where
    they belong to a network of objects that is rebuilt around them. In plain data a tensor is a value.
    """

    def __init__(self, tensors: Callable[[], Iterable[tuple[str, torch.Tensor]]] = tuple) -> None:
        self._objects: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._list_tensors = tensors

    def add(self, name: str, value: Any) -> None:
        """Register `value` under `name`; the first name of an object is kept."""
        if value is not None and id(value) not in self._names:
            self._objects[name] = value  # kept alive, because ids of deleted objects are reused
            self._names[id(value)] = name

    def name_of(self, value: Any) -> str | None:
        """Return the name of an object, or None."""
        return self._names.get(id(value))

    def tensor_name(self, tensor: torch.Tensor) -> str | None:
        """Return the name of a parameter or buffer, or None."""
        return self._tensor_names.get(id(tensor))

    def get(self, name: str) -> Any:
        """Return the object with that name; raise KeyError if this run has none."""
        return self._objects[name] if name in self._objects else self._tensors[name]

    @functools.cached_property
    def _tensors(self) -> dict[str, torch.Tensor]:
        """The parameters and buffers by name; listed at first use, because few states refer to tensors."""
        return dict(self._list_tensors())

    @functools.cached_property
    def _tensor_names(self) -> dict[int, str]:
        """The name of each parameter and buffer by its id."""
        # Reversed, so that the first name of a tensor with several names wins.
        return {id(tensor): name for name, tensor in reversed(self._tensors.items())}
