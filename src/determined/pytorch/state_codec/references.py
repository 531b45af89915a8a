"""The objects of a run that a state may refer to: they are never written, a resumed run has its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch


class References:
    """Names of models, optimizers, schedulers, trial, context and the like, and of the parameters of models.

    Tensors are referred to only from inside an object, where they belong to a network of objects that is rebuilt
    around them. In plain data a tensor is a value.
    """

    def __init__(self, tensors: Callable[[], Iterable[tuple[str, torch.Tensor]]] = tuple) -> None:
        self._objects: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._list_tensors = tensors

    def add(self, name: str, value: Any) -> None:
        """Refer to `value` by `name`; the first name of an object stays."""
        if value is not None and id(value) not in self._names:
            self._objects[name] = value  # kept alive, so that its id stays its own
            self._names[id(value)] = name

    def name_of(self, value: Any) -> str | None:
        return self._names.get(id(value))

    def tensor_name(self, tensor: torch.Tensor) -> str | None:
        return self._tensor_names.get(id(tensor))

    def get(self, name: str) -> Any:
        """The object of that name; a KeyError if this run has none."""
        return self._objects[name] if name in self._objects else self._tensors[name]

    @functools.cached_property
    def _tensors(self) -> dict[str, torch.Tensor]:
        return dict(self._list_tensors())

    @functools.cached_property
    def _tensor_names(self) -> dict[int, str]:
        return {id(tensor): name for name, tensor in reversed(self._tensors.items())}
