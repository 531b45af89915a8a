"""Inspect classes of values: their names, whether they are registered, and how instances hold their state."""

from __future__ import annotations

import collections
import functools
import logging
import types
from typing import Any, NamedTuple

import torch

_HEAP_TYPE, _MANAGED_DICT = 1 << 9, 1 << 4  # Py_TPFLAGS_HEAPTYPE and Py_TPFLAGS_MANAGED_DICT in `type.__flags__`
_POINTER = 8  # bytes

# Ordered: the first entry that a class derives from holds its items, so subclasses come before their bases.
BASES: dict[str, type] = {
    "defaultdict": collections.defaultdict,
    "OrderedDict": collections.OrderedDict,
    "Counter": collections.Counter,
    "dict": dict,
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "deque": collections.deque,
    "int": int,
    "float": float,
    "complex": complex,
    "str": str,
    "bytes": bytes,
}

BASES_BY_CLASS = {kind: name for name, kind in BASES.items()}

# Classes that can be values of a state without a lookup in the program.
BUILTIN_CLASSES: dict[str, type] = {
    **BASES,
    **{kind.__name__: kind for kind in (bool, object, range, slice, bytearray, type(None))},
}

# Values of these types are taken from the program and never written.
_PROGRAM_VALUES = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ModuleType,
    functools.partial,
    logging.Logger,
    torch.jit.ScriptFunction,
)


def is_program_value(value: Any) -> bool:
    """Return whether a value is code or another object that the program has anyway, such as a compiled function."""
    if isinstance(value, _PROGRAM_VALUES):
        return True
    kind: Any = type(value)
    # A callable without a Python layout is compiled code, such as a numpy ufunc or an lru_cache.
    compiled = callable(value) and not isinstance(value, (type, torch.Tensor)) and layout_of(kind) is None
    return compiled and not is_stateful(value)


def name_of(kind: Any) -> str:
    """Return the module and qualified name of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


_MAIN_MODULES = ("__main__", "__mp_main__")


def is_named(kind: type, name: str) -> bool:
    """Return whether a class has that name; a class of the main script may be saved under its module's name."""
    if name_of(kind) == name:
        return True
    module = name.removesuffix(f".{kind.__qualname__}")
    # The same script is `__main__` when it runs, and a module when a spawned process or another program imports it.
    return module != name and (module in _MAIN_MODULES or kind.__module__ in _MAIN_MODULES)


def registered() -> dict[str, Any]:
    """Return the objects that the program registered with `torch.serialization.add_safe_globals`, by name."""
    found = {}
    for entry in torch.serialization.get_safe_globals():
        # torch accepts a pair (object, name) for classes whose import path changed.
        if isinstance(entry, tuple):
            found[entry[1]] = entry[0]
        elif hasattr(entry, "__module__") and hasattr(entry, "__qualname__"):
            found[name_of(entry)] = entry
    return found


def is_stateful(value: Any) -> bool:
    """Return whether the class of a value has `state_dict` and `load_state_dict`."""
    # Looked up on the class: an instance attribute of that name is data.
    kind = type(value)
    return callable(getattr(kind, "state_dict", None)) and callable(getattr(kind, "load_state_dict", None))


class Layout(NamedTuple):
    """How instances of a class hold their state: items of a built-in base, slots, and a dict of attributes."""

    base: str  # a key of BASES, or "object"
    slots: frozenset[str]
    has_dict: bool
    fields: frozenset[str]  # names that every instance should have: slots and fields of a dataclass

    @property
    def base_class(self) -> type:
        """The built-in class that holds the items, or `object`."""
        return BASES.get(self.base, object)


# A state holds many instances of few classes; the limit bounds programs that create classes in a loop.
@functools.lru_cache(maxsize=1024)
def layout_of(kind: type) -> Layout | None:
    """Return the layout of a class written in Python, or None if its instances hold state that is invisible to Python.

    An instance that is larger than its base, slots, dict and weak references holds further data of a compiled class.
    """
    base = next((name for name, one in BASES.items() if issubclass(kind, one)), "object")
    base_class = BASES.get(base, object)
    # Classes that are not heap types are compiled; their instances may hold data that no attribute shows.
    hidden = (one for one in kind.__mro__ if not one.__flags__ & _HEAP_TYPE)
    if kind is object or not all(one is object or issubclass(base_class, one) for one in hidden):
        return None
    slots = frozenset(slot for one in kind.__mro__ for slot in _own_slots(one))
    size = base_class.__basicsize__ + _POINTER * len(slots)
    has_dict = kind.__dictoffset__ != 0
    # A managed dict lies in front of the object and is not part of its basic size.
    if has_dict and not kind.__flags__ & _MANAGED_DICT and not base_class.__dictoffset__:
        size += _POINTER
    if kind.__weakrefoffset__ > 0 and not base_class.__weakrefoffset__:
        size += _POINTER
    if kind.__basicsize__ > size:
        return None
    return Layout(base, slots, has_dict, slots | frozenset(getattr(kind, "__dataclass_fields__", ())))


def _own_slots(kind: type) -> list[str]:
    """Return the slots that a class adds, under their attribute names."""
    if not kind.__flags__ & _HEAP_TYPE:
        return []  # members of a built-in class belong to the items of the base
    return [name for name, one in vars(kind).items() if isinstance(one, types.MemberDescriptorType)]


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the attributes in an instance's dict and slots."""
    attributes = {}
    kind: Any = type(value)
    layout = layout_of(kind)
    if layout is None:
        return {}
    for slot in sorted(layout.slots):
        try:
            attributes[slot] = object.__getattribute__(value, slot)
        except AttributeError:
            continue  # never set
    if layout.has_dict:
        # object.__getattribute__, since a class may override attribute access with code that must not run here.
        attributes.update(object.__getattribute__(value, "__dict__"))
    return attributes
