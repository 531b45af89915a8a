"""A public class has the documented members and no others: what autodoc shows is what a user may call."""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from determined import TrialContext, core, pytorch

MODULES = (
    "determined",
    "determined.pytorch",
    "determined.pytorch.samplers",
    "determined.pytorch.experimental",
    "determined.core",
    "determined.core.experimental",
    "determined.experimental.client",
    "determined.experimental",
    "determined.experimental.core_v2",
    "determined.tensorboard.metric_writers",
    "determined.tensorboard.metric_writers.pytorch",
)
LISTED = {
    name: set(members.split())
    for name, members in (
        line.split(":")
        for line in Path(__file__).with_name("public_members.txt").read_text().splitlines()
        if not line.startswith("#")
    )
}


def own_classes(cls: type) -> list[type]:
    """Return a class and its bases, without those of other packages."""
    return [base for base in cls.__mro__ if base.__module__.partition(".")[0] == "determined"]


def exported_classes() -> Iterator[tuple[str, type]]:
    """Yield every class that a public module exports, once, under the first of its names."""
    seen: set[type] = set()
    for name in MODULES:
        module = importlib.import_module(name)
        defined = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == name]
        for key in getattr(module, "__all__", defined):
            value: Any = getattr(module, key)
            is_new = inspect.isclass(value) and value not in seen and not issubclass(value, enum.Enum)
            if is_new and value.__module__.partition(".")[0] == "determined":
                seen.add(value)
                yield f"{name}.{key}", value


def members(cls: type) -> set[str]:
    """Return the public names in a class, those that its methods assign to `self`, and those of its bases."""
    found: set[str] = set()
    for base in own_classes(cls):
        found |= {*vars(base), *getattr(base, "__annotations__", {})}
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        found |= {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
        }
    return {name for name in found if not name.startswith("_")}


CLASSES = dict(exported_classes())
NAMES = {cls: name for name, cls in CLASSES.items()}


def test_every_exported_class_is_listed() -> None:
    assert sorted(CLASSES.keys() ^ LISTED.keys()) == []


@pytest.mark.parametrize("name", CLASSES)
def test_the_members_are_the_documented_ones(name: str) -> None:
    cls = CLASSES[name]
    inherited = {member for base in own_classes(cls)[1:] if base in NAMES for member in LISTED[NAMES[base]]}
    found, documented = members(cls) - inherited, LISTED[name] - inherited
    assert sorted(found - documented) == [], f"not documented: add them to public_members.txt, or make {name}'s private"
    assert sorted(documented - found) == []


@pytest.mark.parametrize("cls", [TrialContext, pytorch.PyTorchTrialContext, core.Context])
def test_objects_that_the_library_creates_have_no_public_arguments(cls: type) -> None:
    parameters = list(inspect.signature(cls).parameters)
    assert [name for name in parameters if not name.startswith("_")] == []


def exported_functions() -> Iterator[tuple[str, Any]]:
    for name in MODULES:
        module = importlib.import_module(name)
        for key in getattr(module, "__all__", ()):
            if inspect.isfunction(getattr(module, key)):
                yield f"{name}.{key}", getattr(module, key)


@pytest.mark.parametrize(("name", "function"), list(exported_functions()))
def test_functions_have_no_arguments_for_the_library_alone(name: str, function: Any) -> None:
    assert [one for one in inspect.signature(function).parameters if one.startswith("_")] == []
