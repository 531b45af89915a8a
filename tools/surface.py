"""The public names of the library: what the reference describes, and what the API table must list."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

# In reading order. A class that several of them offer belongs to the first.
MODULES = (
    "determined",
    "determined.pytorch",
    "determined.pytorch.samplers",
    "determined.pytorch.experimental",
    "determined.core",
    "determined.experimental.client",
    "determined.experimental",
    "determined.experimental.core_v2",
    "determined.errors",
)


def public_names(module: str) -> dict[str, Any]:
    """What a module offers, in its own order."""
    loaded = importlib.import_module(module)
    return {name: getattr(loaded, name) for name in _offered(loaded) if not inspect.ismodule(getattr(loaded, name))}


def owners() -> dict[int, str]:
    """For each class and function (by its identity) the full name under which it is described."""
    found: dict[int, str] = {}
    for module in MODULES:
        for name, value in public_names(module).items():
            if _is_described(value):
                found.setdefault(id(value), f"{module}.{name}")
    return found


def members(cls: type[Any]) -> dict[str, Any]:
    """The public members of a class, without those of a base that is public itself."""
    public = {id(base) for base in cls.__mro__ if base is not cls and id(base) in owners()}
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == "determined" and id(base) not in public:
            found |= {name: value for name, value in _own(base).items() if not name.startswith("_")}
    return found


def all_names() -> Iterator[str]:
    """Every public name in full: modules' names, and the members of their classes."""
    owner = owners()
    for module in MODULES:
        for name, value in public_names(module).items():
            yield f"{module}.{name}"
            if inspect.isclass(value) and owner.get(id(value)) == f"{module}.{name}":
                yield from (f"{module}.{name}.{member}" for member in members(value))


def _offered(module: ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if not name.startswith("__")]
    own = {name: value for name, value in vars(module).items() if not name.startswith("_") and _is_described(value)}
    return [name for name, value in own.items() if value.__module__.partition(".")[0] == "determined"]


def _own(cls: type[Any]) -> dict[str, Any]:
    fields = getattr(cls, "__dataclass_fields__", {}) if dataclasses.is_dataclass(cls) else {}
    return {name: field for name, field in fields.items() if name in cls.__annotations__} | dict(vars(cls))


def _is_described(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isfunction(value)
