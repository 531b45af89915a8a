"""Find the public names of the library, for the reference and the API table."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

# In the order of the reference. A class that several modules export is described in the first.
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
    """Return the public names of a module, in the order of `__all__`."""
    loaded = importlib.import_module(module)
    return {name: getattr(loaded, name) for name in _offered(loaded) if not inspect.ismodule(getattr(loaded, name))}


def owners() -> dict[int, str]:
    """Return the full name under which each class and function (by its identity) is described."""
    found: dict[int, str] = {}
    for module in MODULES:
        for name, value in public_names(module).items():
            if _is_described(value):
                found.setdefault(id(value), f"{module}.{name}")
    return found


def members(cls: type[Any]) -> dict[str, Any]:
    """Return the public members of a class, without those of public base classes."""
    found: dict[str, Any] = {}
    for base in reversed(_described_here(cls)):
        found |= {name: value for name, value in _own(base).items() if not name.startswith("_")}
    return found


def made_attributes(cls: type[Any]) -> dict[str, str]:
    """Return the public attributes that a constructor sets, with their types if the source contains them."""
    found: dict[str, str] = {}
    for base in reversed(_described_here(cls)):
        if "__init__" in vars(base) and not dataclasses.is_dataclass(base):
            (function,) = ast.parse(textwrap.dedent(inspect.getsource(base.__init__))).body
            assert isinstance(function, ast.FunctionDef)
            found |= dict(_assigned(function))
    return {name: kind for name, kind in found.items() if not name.startswith("_") and not hasattr(cls, name)}


def all_names() -> Iterator[str]:
    """Return every public name in full: names of modules, and members of their classes."""
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


def _described_here(cls: type[Any]) -> list[type[Any]]:
    """Return a class and those of its bases that are not described separately in the reference."""
    public = {id(base) for base in cls.__mro__ if base is not cls and id(base) in owners()}
    return [base for base in cls.__mro__ if base.__module__.startswith("determined") and id(base) not in public]


def _assigned(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    arguments = [*function.args.args, *function.args.kwonlyargs]
    types = {one.arg: ast.unparse(one.annotation) for one in arguments if one.annotation is not None}
    for statement in ast.walk(function):
        pairs: list[tuple[ast.expr, str]] = []
        if isinstance(statement, ast.AnnAssign):
            pairs = [(statement.target, ast.unparse(statement.annotation))]
        elif isinstance(statement, ast.Assign):
            targets = statement.targets[0].elts if isinstance(statement.targets[0], ast.Tuple) else statement.targets
            values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
            kinds = [_kind(value, types) for value in values] if len(values) == len(targets) else [""] * len(targets)
            pairs = list(zip(targets, kinds, strict=True))
        for target, kind in pairs:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
                yield target.attr, kind


def _kind(value: ast.expr, types: dict[str, str]) -> str:
    """Return the type of a stored argument, or of an object created in the constructor."""
    if isinstance(value, ast.Name):
        return types.get(value.id, "")
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id[0].isupper():
        return value.func.id
    return ""


def _own(cls: type[Any]) -> dict[str, Any]:
    fields = getattr(cls, "__dataclass_fields__", {}) if dataclasses.is_dataclass(cls) else {}
    return {name: field for name, field in fields.items() if name in cls.__annotations__} | dict(vars(cls))


def _is_described(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isfunction(value)
