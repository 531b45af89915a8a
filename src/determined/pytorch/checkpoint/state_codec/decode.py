"""`Decoder`: rebuild a state from plain data, with classes from the program and values from the file.

`decode_tree.py` walks through the data; here is what each kind of tag means.
"""

from __future__ import annotations

import collections
import enum
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from determined.pytorch.checkpoint.state_codec import classes, paths, standard, tags
from determined.pytorch.checkpoint.state_codec.decode_tree import SKIPPED, TreeDecoder, WrongData, of_type
from determined.pytorch.checkpoint.state_codec.known import Known
from determined.pytorch.checkpoint.state_codec.paths import MISSING, Lazy, Path
from determined.pytorch.checkpoint.state_codec.references import References

__all__ = ["Decoder", "Lazy", "has_tags"]

_MUTABLE = ("defaultdict", "OrderedDict", "Counter", "dict", "list", "set", "deque")


def has_tags(tree: Any) -> bool:
    """Return whether a tree contains tagged values to decode."""
    return next(tags.tags_in(tree), None) is not None


class Decoder(TreeDecoder):
    """Decodes the parts of one checkpoint; `checkpoint` is its name in messages.

    `unpickled` returns a value that was pickled into the separate file, by its number; without it such values are
    rejected. `known` contains the classes that were in these places when training began, if this process has already
    trained: templates are then not as in a new process, and may have more attributes than the checkpoint. Objects of
    the program that restore their own state get it in `load_states`, after everything was decoded.
    """

    def __init__(
        self,
        checkpoint: str,
        references: References,
        unpickled: Callable[[int], Any] | None = None,
        known: Mapping[Path, Known] | None = None,
    ) -> None:
        super().__init__(
            checkpoint,
            {
                "standard": self._standard,
                "object array": self._object_array,
                "enum": self._enum,
                "class": self._class,
                "program": self._program,
                "reference": self._reference,
                "container": self._container,
                "object": self._object,
                "state": self._state,
                tags.MISSING_PART: self._missing,
                tags.PICKLED_PART: self._pickled,
            },
        )
        self._references = references
        self._unpickled = unpickled
        self._known = known
        self._registered = classes.registered()
        self._states: list[tuple[Any, Any, Path]] = []

    def load_states(self) -> None:
        """Call `load_state_dict` of the program's objects that restore their own state."""
        for value, state, path in self._states:
            try:
                value.load_state_dict(state)
            except Exception as error:
                self._path = list(path)
                kind = type(value).__name__
                raise self._error(f"{kind}.load_state_dict() failed: {type(error).__name__}: {error}") from error
        self._states.clear()

    def _standard(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode a value of the standard library or numpy."""
        name = tag["of"]
        values = self._items(of_type(list, tag["values"]), template)
        return self._keep(tag, standard.from_values(name, values))

    def _object_array(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode a numpy array of objects."""
        items = of_type(list, tag["items"])
        array = np.empty(len(items), dtype=object)
        array = self._keep(tag, array.reshape([of_type(int, size) for size in tag["shape"]]))
        flat = array.reshape(-1)  # a view, so that items which refer to the array get the array itself
        for number, one in enumerate(items):
            flat[number] = self._item(number, one, template)
        return array

    def _enum(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode a member of an enumeration, or a combination of flags."""
        kind = self._kind(tag, type(template))
        if not issubclass(kind, enum.Enum):
            raise WrongData(f"{classes.name_of(kind)} is no enumeration")
        if "name" in tag:
            member = kind.__members__.get(of_type(str, tag["name"]))
            if member is None:
                raise WrongData(f"{classes.name_of(kind)} has no member {tag['name']!r:.80}")
            return member
        if not issubclass(kind, enum.Flag):
            raise WrongData(f"{classes.name_of(kind)} has no combined values")
        # Calls the enumeration of the program with an integer, which cannot run code of the file.
        return kind(of_type(int, tag["value"]))

    def _class(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode a class that is itself a value."""
        if "builtin" in tag:
            return classes.BUILTIN_CLASSES[tag["builtin"]]
        return self._kind(tag, template)

    def _program(self, tag: dict[Any, Any], template: Any) -> Any:
        """Return the program's own function or module in this place, or skip it."""
        return template if classes.is_program_value(template) else SKIPPED

    def _reference(self, tag: dict[Any, Any], template: Any) -> Any:
        """Return the object of this run that a reference names."""
        try:
            return self._references.get(tag["to"])
        except (KeyError, TypeError):
            raise WrongData(f"it refers to {tag['to']!r:.80}, and the trial has no such object") from None

    def _container(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode a built-in container that could not be written as it is, such as a dict with keys of any class."""
        return self._rebuilt(tag, template, classes.BASES[tag["base"]], tag["base"])

    def _object(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode an instance of a Python class: its items and attributes, without calling its constructor."""
        kind = self._kind(tag, type(paths.first_of(template)))
        layout = classes.layout_of(kind)
        # Otherwise a file could have a class filled in a way that its methods do not expect, or crash the interpreter.
        if layout is None or layout.base != tag["base"]:
            raise WrongData(f"{classes.name_of(kind)} is not a class whose instances are stored like this")
        value = self._rebuilt(tag, template, kind, layout.base)
        own = layout.has_dict
        if tag.get("items are attributes"):
            if not (own and layout.base in _MUTABLE[:4]):
                raise WrongData(f"the items of a {classes.name_of(kind)} cannot be its attributes")
            # This is what an AttrDict does: the items are the attributes.
            object.__setattr__(value, "__dict__", value)
            return value
        attributes = of_type(dict, tag["attributes"])
        self._check_attributes(tag, attributes, kind, layout, template)
        for name, tree in attributes.items():
            decoded = self._decode_below(("attribute", name), tree, template)
            if decoded is SKIPPED:
                continue
            if name in layout.slots:
                object.__setattr__(value, name, decoded)
            else:  # like object.__setattr__, but never through a property of the class, which would run code
                object.__getattribute__(value, "__dict__")[name] = decoded
        return value

    def _check_attributes(
        self, tag: dict[Any, Any], attributes: dict[Any, Any], kind: type, layout: classes.Layout, template: Any
    ) -> None:
        """Raise if attributes are impossible for the class, or if some that it should have are missing."""
        for name in attributes:
            if type(name) is not str or not (layout.has_dict or name in layout.slots):
                raise WrongData(f"a {classes.name_of(kind)} has no attribute {name!r:.80}")
        expected = set(layout.fields)
        # With `_known` the program has trained already, so its value may have gained attributes since.
        if type(paths.first_of(template)) is kind and self._known is None:
            expected |= paths.attributes_in(template)
        lost = sorted(expected - attributes.keys() - {*of_type(list, tag["without"])})
        if lost:
            raise WrongData(f"the checkpoint lacks the attribute {lost[0]!r} of a {classes.name_of(kind)}")

    def _rebuilt(self, tag: dict[Any, Any], template: Any, kind: Any, base: str) -> Any:
        """Return an instance with its items, made by the built-in class it derives from, so no code of `kind` runs."""
        if base == "object":
            return self._keep(tag, object.__new__(kind))
        base_class: Any = classes.BASES[base]
        if base in _MUTABLE:
            # Kept before it is filled, because its items may refer to it.
            value = self._keep(tag, base_class.__new__(kind))
            self._fill(value, tag, template, base_class)
            return value
        if base in ("tuple", "frozenset"):
            trees = of_type(list, tag["items"])
            items = self._items(trees, template) if base == "tuple" else self._elements(trees, template)
            fields = getattr(kind, "_fields", None)
            if base == "tuple" and isinstance(fields, tuple) and len(fields) != len(items):
                raise WrongData(f"a {classes.name_of(kind)} has {len(fields)} fields, and the checkpoint {len(items)}")
            return self._keep(tag, base_class.__new__(kind, items))
        plain = self._decode_below(("attribute", "value"), tag["value"], MISSING)
        return self._keep(tag, base_class.__new__(kind, of_type(base_class, plain)))

    def _fill(self, value: Any, tag: dict[Any, Any], template: Any, base_class: Any) -> None:
        """Add the decoded items to a container, using the methods of the built-in class only."""
        # An overridden `__setitem__` or `append` would be code of the program that runs on data of the file.
        trees = of_type(list, tag["items"])
        if issubclass(base_class, dict):
            for pair in trees:
                encoded_key, one = of_type(list, pair)
                key = self._key(encoded_key, template)
                decoded = self._decode_below(("item", key), one, template)
                if decoded is not SKIPPED:
                    base_class.__setitem__(value, key, decoded)
            if base_class is collections.defaultdict:
                factory = self._decode_below(paths.FACTORY, tag["factory"], template)
                if factory is not SKIPPED and factory is not None and not callable(factory):
                    raise WrongData("the default_factory of a defaultdict is not callable")
                value.default_factory = None if factory is SKIPPED else factory
        elif base_class is set:
            for one in self._elements(trees, template):
                set.add(value, one)
        elif base_class is collections.deque:
            maxlen = tag["maxlen"]
            if maxlen is not None and len(trees) > of_type(int, maxlen):
                raise WrongData(f"a deque of at most {maxlen} items holds {len(trees)}")
            collections.deque.__init__(value, (), maxlen)
            for number, one in enumerate(trees):
                collections.deque.append(value, self._item(number, one, template))
        else:
            for number, one in enumerate(trees):
                list.append(value, self._item(number, one, template))

    def _state(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode the state for an object of the program, which `load_states` loads later."""
        if template is MISSING or not classes.is_stateful(template):
            raise WrongData(f"it is the state of a {tag['type']!r:.80}, and the trial has no such object there")
        self._kind(tag, type(template))
        self._keep(tag, template)
        state = self._decode_below(paths.STATE, tag["state"], template)
        # Loaded at the end: the object may be shared, and its state may refer to values that are decoded later.
        self._states.append((template, state, tuple(self._path)))
        return template

    def _missing(self, tag: dict[Any, Any], template: Any) -> Any:
        """Raise, because this value could not be saved."""
        raise WrongData(f"this part could not be saved, it was a {tag.get('type')!s:.200}: {tag.get('why')!s:.400}")

    def _pickled(self, tag: dict[Any, Any], template: Any) -> Any:
        """Unpickle a value from the separate file; raise unless the trial allows it."""
        if self._unpickled is None:
            raise WrongData(
                f"this part, a {tag.get('type')!s:.200}, was saved as a pickle, which can run code when it is read; "
                "it is read only when a trial that called context.experimental.allow_pickled_state() is trained"
            )
        return self._keep(tag, self._unpickled(of_type(int, tag["number"])))

    def _kind(self, tag: dict[Any, Any], of_program: Any) -> Any:
        """Return the class that a tag names: that of the program's value in this place, or a registered one."""
        name = of_type(str, tag["type"])
        nothing = of_program is type(MISSING) or of_program is MISSING
        if not nothing and isinstance(of_program, type) and classes.is_named(of_program, name):
            return of_program
        before = (self._known or {}).get(tuple(self._path))
        if before is not None and classes.is_named(before.kind, name):
            return before.kind
        found = self._registered.get(name)
        if isinstance(found, type):
            return found
        here = "nothing there" if nothing else f"a {classes.name_of(_class_of(of_program))} there"
        raise WrongData(
            f"it is a {name[:200]!r} in the checkpoint, and the trial has {here}; if the class is right, register it "
            "with torch.serialization.add_safe_globals"
        )


def _class_of(value: Any) -> type:
    """Return a class itself, and the class of any other value."""
    return value if isinstance(value, type) else type(value)
