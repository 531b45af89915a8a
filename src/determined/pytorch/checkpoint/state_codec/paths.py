"""Paths inside a state: steps from a value to its parts, their text form, and what the program has at a path."""

from __future__ import annotations

import collections
import reprlib
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from determined.pytorch.checkpoint.state_codec import classes

Step: TypeAlias = tuple[str, Any]
Path: TypeAlias = tuple[Step, ...]

STATE: Step = ("state", None)
FACTORY: Step = ("factory", None)

MISSING: Any = types.new_class("MISSING")()  # the program has no value at a place; None would be a value

# A path in a message should fit on a few lines.
_LONGEST = 300
# Objects inside of a key that are compared by their attributes, too. A key can refer to a large graph of objects.
_SHAPED_LEVELS = 3
_SEQUENCES = (list, tuple, collections.deque)


def item(key: Any) -> Step:
    """Return the step to the value of a dict under `key`, or to the item of a sequence at that index."""
    return ("item", key)


def attribute(name: str) -> Step:
    """Return the step to an attribute of an object."""
    return ("attribute", name)


def element(kind: type) -> Step:
    """Return the step to an element of a set or a key of a dict, which have no position and are identified by class."""
    return ("element", classes.name_of(kind))


def shown(path: Iterable[Step]) -> str:
    """Return a path as the program would write it: `callbacks['early stopping']['history'][3].score`."""
    text = ""
    for kind, key in path:
        if kind == "item":
            text += f"[{_repr.repr(key)}]" if text else str(key)
        elif kind == "attribute":
            text += f".{key}"
        elif kind == "element":
            text += f"<a key or element of class {key}>"
        elif kind == "state":
            text += ".state_dict()"
        else:
            text += ".default_factory"
    return text if len(text) <= _LONGEST else text[: _LONGEST // 2] + " ... " + text[-_LONGEST // 2 :]


class _ShortRepr(reprlib.Repr):
    """A repr of keys that is short enough for messages."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 80


_repr = _ShortRepr()


class Lazy:
    """A template that is computed at most once, and only when a value needs it."""

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute: Callable[[], Any] | None = compute
        self._value: Any = MISSING

    def get(self) -> Any:
        """Return the template, computed at the first call."""
        if self._compute is not None:
            # Cleared before the call, so that a function that fails or recurses is not called twice.
            compute, self._compute = self._compute, None
            found = compute()
            self._value = found.get() if isinstance(found, Lazy) else found
        return self._value


@dataclass(frozen=True)
class OneOf:
    """Several values of the program, each of which may be the one in a place: keys of a dict have no position."""

    values: tuple[Any, ...]

    def named(self, name: str) -> Any:
        """Return the values whose class has this name: one, or several as `OneOf`; any value if none has it."""
        return one_of([one for one in self.values if classes.name_of(type(one)) == name] or self.values[:1])


def one_of(values: Iterable[Any]) -> Any:
    """Return the values that exist as one template: MISSING, the only one, or `OneOf`."""
    # One of each shape, as a dict can have many thousands of keys, and they have few shapes.
    found: dict[Any, Any] = {}
    for value in values:
        for one in value.values if isinstance(value, OneOf) else () if value is MISSING else (value,):
            found.setdefault(_shape(one), one)
    return OneOf(tuple(found.values())) if len(found) > 1 else next(iter(found.values()), MISSING)


def _shape(value: Any, levels: int = _SHAPED_LEVELS) -> Any:
    """Return the class of a value with the shapes of its items and attributes, as far as a key usually has them.

    Values of the same shape have the same classes inside, so that one of them is template enough.
    """
    if isinstance(value, frozenset):
        items: Any = frozenset(_shape(one, levels) for one in value)
    else:
        items = tuple(_shape(one, levels) for one in value) if isinstance(value, tuple) else ()
    if not levels:
        return type(value), items
    attributes = classes.attributes_of(value).items()
    return type(value), items, frozenset((name, _shape(one, levels - 1)) for name, one in attributes)


def first_of(template: Any) -> Any:
    """Return a template that is a single value of the program, for what only depends on its class."""
    return template.values[0] if isinstance(template, OneOf) else template


def attributes_in(template: Any) -> set[str]:
    """Return the names of the attributes that a value in this place has, whichever of the program's values it is."""
    values = template.values if isinstance(template, OneOf) else (template,)
    return set.intersection(*(set(classes.attributes_of(one)) for one in values))


def child(template: Any, step: Step) -> Any:
    """Return the program's value one step below `template`, or MISSING, or all that may be it as `OneOf`."""
    if isinstance(template, Lazy):
        above = template
        return Lazy(lambda: child(above.get(), step))
    if isinstance(template, OneOf):
        return one_of(child(one, step) for one in template.values)
    kind, key = step
    if template is MISSING:
        return MISSING
    if kind == "item":
        return _item(template, key)
    if kind == "attribute":
        return classes.attributes_of(template).get(key, MISSING)
    # Any element of the same class serves, but the elements of two tuples may be of different classes.
    if kind == "element":
        members = template if isinstance(template, (dict, set, frozenset)) else ()
        return one_of(one for one in members if classes.name_of(type(one)) == key)
    if kind == "factory":
        return template.default_factory if isinstance(template, collections.defaultdict) else MISSING
    return Lazy(template.state_dict) if classes.is_stateful(template) else MISSING


def _item(template: Any, key: Any) -> Any:
    """Return the item of a container of the program, or MISSING."""
    if isinstance(template, dict):
        # dict.get, so that neither a default factory nor an overridden method of the program runs.
        found = dict.get(template, key, MISSING)
        return _item_with_nan_key(template, key) if found is MISSING else found
    if isinstance(template, slice):
        template = (template.start, template.stop, template.step)
    elif isinstance(template, np.ndarray) and template.dtype == object:
        template = template.reshape(-1).tolist()
    if isinstance(template, _SEQUENCES) and type(key) is int and 0 <= key < len(template):
        return template[key]
    return MISSING


def _item_with_nan_key(template: dict[Any, Any], key: Any) -> Any:
    """Return the item whose key is written like this one, which contains NaN: NaN does not equal itself."""
    if not isinstance(key, (float, complex, tuple)) or "nan" not in repr(key):
        return MISSING
    same = (value for known, value in template.items() if type(known) is type(key) and repr(known) == repr(key))
    return next(same, MISSING)
