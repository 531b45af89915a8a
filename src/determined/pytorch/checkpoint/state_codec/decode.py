"""`Decoder`: rebuild a state from plain data, with classes from the program and values from the file."""

from __future__ import annotations

import collections
import enum
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from determined.errors import InvalidCheckpointException
from determined.pytorch.checkpoint.state_codec import classes, paths, standard, tags
from determined.pytorch.checkpoint.state_codec.known import Known
from determined.pytorch.checkpoint.state_codec.paths import MISSING, Lazy, Path, Step, child
from determined.pytorch.checkpoint.state_codec.references import References
from determined.pytorch.checkpoint.state_codec.tags import DEEPEST, KIND

__all__ = ["Decoder", "Lazy", "has_tags"]

_SKIPPED: Any = object()  # stands for a function that this program does not have; it is left out
_MUTABLE = ("defaultdict", "OrderedDict", "Counter", "dict", "list", "set", "deque")
_COSTLIEST_KEY = 10_000  # parts of nested tuples; hashing visits a part as often as it occurs


def has_tags(tree: Any) -> bool:
    """Return whether a tree contains tagged values to decode."""
    return next(tags.tags_in(tree), None) is not None


class _Wrong(Exception):
    """Raised with a description of what is wrong with a tag."""


class Decoder:
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
        self._checkpoint = checkpoint
        self._references = references
        self._unpickled = unpickled
        self._known = known
        self._registered = classes.registered()
        self._path: list[Step] = []
        self._done: dict[int, Any] = {}
        self._states: list[tuple[Any, Any, Path]] = []
        self._kinds: dict[str, Callable[[dict[Any, Any], Any], Any]] = {
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
        }

    def decode(self, tree: Any, template: Any, *path: Step) -> Any:
        """Return the value that was encoded; `template` is the program's value in its place, or a `Lazy` one.

        Raises InvalidCheckpointException, naming the path, if the data is invalid or does not fit the program.
        """
        self._path = list(path)
        try:
            value = self._decode(tree, template)
        except _Wrong as error:
            raise self._error(str(error)) from error.__cause__
        except RecursionError:
            raise self._error("it is nested too deeply") from None
        return None if value is _SKIPPED else value

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

    def _error(self, why: str) -> InvalidCheckpointException:
        """Return an error that names the checkpoint and the current path."""
        return InvalidCheckpointException(
            f"checkpoint {self._checkpoint} cannot be resumed from: {paths.shown(self._path)}: {why}"
        )

    def _decode(self, tree: Any, template: Any) -> Any:
        """Decode a value; data without tags is copied, with the values inside decoded."""
        kind = type(tree)
        if kind not in _TREES:
            return tree
        # By id: the file has each shared value once, and the decoded program must share it as well.
        if id(tree) in self._done:
            return self._done[id(tree)][1]
        # A few levels more than the encoder allows, because tags add some. A hostile file could exhaust the stack.
        if len(self._path) > DEEPEST + 10:
            raise _Wrong(f"it is nested deeper than {DEEPEST} levels")
        if kind is list:
            return self._fill_list(self._keep(tree, []), tree, template)
        if kind is tuple:
            return self._keep(tree, tuple(self._items(tree, template)))
        # Plain sets contain only plain values, so there is nothing to decode.
        if kind is set:
            return tree
        if KIND in tree:
            return self._tag(tree, template)
        return self._fill_dict(self._keep(tree, kind()), tree, template)

    def _keep(self, tree: Any, value: Any) -> Any:
        """Remember the value of decoded data and return it.

        A container is remembered before its parts are decoded, because it may contain itself. In a cycle through a
        tuple, the value that was decoded meanwhile is returned.
        """
        # The tree is stored with its value: as long as it lives, its id is not reused.
        return self._done.setdefault(id(tree), (tree, value))[1]

    def _decode_below(self, step: Step, tree: Any, template: Any) -> Any:
        """Decode a value one step below the current path."""
        self._path.append(step)
        value = self._decode(tree, child(template, step) if type(tree) in _TREES else MISSING)
        self._path.pop()  # not in a finally: after an exception the path is part of the message
        return value

    def _item(self, number: int, tree: Any, template: Any) -> Any:
        """Decode an item of a sequence; a function that this program lacks becomes None."""
        value = self._decode_below(("item", number), tree, template)
        return None if value is _SKIPPED else value

    def _items(self, trees: Any, template: Any) -> list[Any]:
        """Decode the items of a sequence; `template` is the sequence that the program has in its place."""
        return [self._item(number, tree, template) for number, tree in enumerate(trees)]

    def _fill_list(self, value: list[Any], tree: list[Any], template: Any) -> list[Any]:
        """Append the decoded items of `tree` one by one, because items may refer to the unfinished list."""
        for number, one in enumerate(tree):
            value.append(self._item(number, one, template))
        return value

    def _fill_dict(self, value: Any, tree: Any, template: Any) -> Any:
        """Add the decoded items of `tree`, and the versions of layers that a model's state dict has."""
        for key, one in tree.items():
            decoded = self._decode_below(("item", key), one, template)
            if decoded is not _SKIPPED:
                value[key] = decoded
        if hasattr(tree, "_metadata"):
            value._metadata = tree._metadata
        return value

    def _tag(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode a tagged dict with the handler for its kind."""
        # Only now, because most states have no tags, and a template may call the program's state_dict().
        if isinstance(template, Lazy):
            template = template.get()
        kind = tag[KIND]
        handler = self._kinds.get(kind) if isinstance(kind, str) else None
        if handler is None:
            raise _Wrong(f"it holds data of an unknown kind, {kind!r:.80}")
        try:
            return handler(tag, template)
        except (_Wrong, InvalidCheckpointException, RecursionError):
            raise
        except Exception as error:  # invalid data can raise any exception
            raise _Wrong(
                f"it holds wrong data for a value of kind {kind!r}: {type(error).__name__}: {error}"
            ) from error

    def _standard(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode a value of the standard library or numpy."""
        name = tag["of"]
        values = self._items(_of_type(list, tag["values"]), template)
        return self._keep(tag, standard.from_values(name, values))

    def _object_array(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode a numpy array of objects."""
        items = _of_type(list, tag["items"])
        array = np.empty(len(items), dtype=object)
        array = self._keep(tag, array.reshape([_of_type(int, size) for size in tag["shape"]]))
        flat = array.reshape(-1)  # a view, so that items which refer to the array get the array itself
        for number, one in enumerate(items):
            flat[number] = self._item(number, one, template)
        return array

    def _enum(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode a member of an enumeration, or a combination of flags."""
        kind = self._kind(tag, type(template))
        if not issubclass(kind, enum.Enum):
            raise _Wrong(f"{classes.name_of(kind)} is no enumeration")
        if "name" in tag:
            member = kind.__members__.get(_of_type(str, tag["name"]))
            if member is None:
                raise _Wrong(f"{classes.name_of(kind)} has no member {tag['name']!r:.80}")
            return member
        if not issubclass(kind, enum.Flag):
            raise _Wrong(f"{classes.name_of(kind)} has no combined values")
        # Calls the enumeration of the program with an integer, which cannot run code of the file.
        return kind(_of_type(int, tag["value"]))

    def _class(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode a class that is itself a value."""
        if "builtin" in tag:
            return classes.BUILTIN_CLASSES[tag["builtin"]]
        return self._kind(tag, template)

    def _program(self, tag: dict[Any, Any], template: Any) -> Any:
        """Return the program's own function or module in this place, or skip it."""
        return template if classes.is_program_value(template) else _SKIPPED

    def _reference(self, tag: dict[Any, Any], template: Any) -> Any:
        """Return the object of this run that a reference names."""
        try:
            return self._references.get(tag["to"])
        except (KeyError, TypeError):
            raise _Wrong(f"it refers to {tag['to']!r:.80}, and the trial has no such object") from None

    def _container(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode a built-in container that could not be written as it is, such as a dict with keys of any class."""
        return self._rebuilt(tag, template, classes.BASES[tag["base"]], tag["base"])

    def _object(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode an instance of a Python class: its items and attributes, without calling its constructor."""
        kind = self._kind(tag, type(template))
        layout = classes.layout_of(kind)
        # Otherwise a file could have a class filled in a way that its methods do not expect, or crash the interpreter.
        if layout is None or layout.base != tag["base"]:
            raise _Wrong(f"{classes.name_of(kind)} is not a class whose instances are stored like this")
        value = self._rebuilt(tag, template, kind, layout.base)
        own = layout.has_dict
        if tag.get("items are attributes"):
            if not (own and layout.base in _MUTABLE[:4]):
                raise _Wrong(f"the items of a {classes.name_of(kind)} cannot be its attributes")
            # This is what an AttrDict does: the items are the attributes.
            object.__setattr__(value, "__dict__", value)
            return value
        attributes = _of_type(dict, tag["attributes"])
        self._check_attributes(tag, attributes, kind, layout, template)
        for name, tree in attributes.items():
            decoded = self._decode_below(("attribute", name), tree, template)
            if decoded is _SKIPPED:
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
                raise _Wrong(f"a {classes.name_of(kind)} has no attribute {name!r:.80}")
        expected = set(layout.fields)
        # With `_known` the program has trained already, so its value may have gained attributes since.
        if type(template) is kind and self._known is None:
            expected |= classes.attributes_of(template).keys()
        lost = sorted(expected - attributes.keys() - {*_of_type(list, tag["without"])})
        if lost:
            raise _Wrong(f"the checkpoint lacks the attribute {lost[0]!r} of a {classes.name_of(kind)}")

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
            trees = _of_type(list, tag["items"])
            items = self._items(trees, template) if base == "tuple" else self._elements(trees, template)
            fields = getattr(kind, "_fields", None)
            if base == "tuple" and isinstance(fields, tuple) and len(fields) != len(items):
                raise _Wrong(f"a {classes.name_of(kind)} has {len(fields)} fields, and the checkpoint {len(items)}")
            return self._keep(tag, base_class.__new__(kind, items))
        plain = self._decode_below(("attribute", "value"), tag["value"], MISSING)
        return self._keep(tag, base_class.__new__(kind, _of_type(base_class, plain)))

    def _fill(self, value: Any, tag: dict[Any, Any], template: Any, base_class: Any) -> None:
        """Add the decoded items to a container, using the methods of the built-in class only."""
        # An overridden `__setitem__` or `append` would be code of the program that runs on data of the file.
        trees = _of_type(list, tag["items"])
        if issubclass(base_class, dict):
            for pair in trees:
                encoded_key, one = _of_type(list, pair)
                key = self._key(encoded_key, template)
                decoded = self._decode_below(("item", key), one, template)
                if decoded is not _SKIPPED:
                    base_class.__setitem__(value, key, decoded)
            if base_class is collections.defaultdict:
                factory = self._decode_below(paths.FACTORY, tag["factory"], template)
                if factory is not _SKIPPED and factory is not None and not callable(factory):
                    raise _Wrong("the default_factory of a defaultdict is not callable")
                value.default_factory = None if factory is _SKIPPED else factory
        elif base_class is set:
            for one in self._elements(trees, template):
                set.add(value, one)
        elif base_class is collections.deque:
            maxlen = tag["maxlen"]
            if maxlen is not None and len(trees) > _of_type(int, maxlen):
                raise _Wrong(f"a deque of at most {maxlen} items holds {len(trees)}")
            collections.deque.__init__(value, (), maxlen)
            for number, one in enumerate(trees):
                collections.deque.append(value, self._item(number, one, template))
        else:
            for number, one in enumerate(trees):
                list.append(value, self._item(number, one, template))

    def _elements(self, trees: list[Any], template: Any) -> list[Any]:
        """Decode the elements of a set."""
        return [self._key(tree, template) for tree in trees]

    def _key(self, tree: Any, template: Any) -> Any:
        """Return a decoded key of a dict or element of a set, which must be complete before it is hashed."""
        step = ("element", _class_name(tree))
        key = self._decode_below(step, tree, template)
        if key is _SKIPPED:
            return None
        _check_cost(key)
        return key

    def _state(self, tag: dict[Any, Any], template: Any) -> Any:
        """Decode the state for an object of the program, which `load_states` loads later."""
        if template is MISSING or not classes.is_stateful(template):
            raise _Wrong(f"it is the state of a {tag['type']!r:.80}, and the trial has no such object there")
        self._kind(tag, type(template))
        self._keep(tag, template)
        state = self._decode_below(paths.STATE, tag["state"], template)
        # Loaded at the end: the object may be shared, and its state may refer to values that are decoded later.
        self._states.append((template, state, tuple(self._path)))
        return template

    def _missing(self, tag: dict[Any, Any], template: Any) -> Any:
        """Raise, because this value could not be saved."""
        raise _Wrong(f"this part could not be saved, it was a {tag.get('type')!s:.200}: {tag.get('why')!s:.400}")

    def _pickled(self, tag: dict[Any, Any], template: Any) -> Any:
        """Unpickle a value from the separate file; raise unless the trial allows it."""
        if self._unpickled is None:
            raise _Wrong(
                f"this part, a {tag.get('type')!s:.200}, was saved as a pickle, which can run code when it is read; "
                "it is read only when a trial that called context.experimental.allow_pickled_state() is trained"
            )
        return self._keep(tag, self._unpickled(_of_type(int, tag["number"])))

    def _kind(self, tag: dict[Any, Any], of_program: Any) -> Any:
        """Return the class that a tag names: that of the program's value in this place, or a registered one."""
        name = _of_type(str, tag["type"])
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
        raise _Wrong(
            f"it is a {name[:200]!r} in the checkpoint, and the trial has {here}; if the class is right, register it "
            "with torch.serialization.add_safe_globals"
        )


_TREES = (dict, list, tuple, set, collections.OrderedDict, collections.Counter)


def _of_type(kind: type, value: Any) -> Any:
    """Return `value` if it is exactly of this type, else raise."""
    if type(value) is not kind:
        raise _Wrong(f"it holds a {type(value).__name__} where a {kind.__name__} is expected")
    return value


def _class_of(value: Any) -> type:
    """Return a class itself, and the class of any other value."""
    return value if isinstance(value, type) else type(value)


def _class_name(tree: Any) -> str:
    """Return the name of the class that `tree` will be decoded to, by which its template is found."""
    if isinstance(tree, dict) and isinstance(tree.get("type"), str):
        return str(tree["type"])
    if isinstance(tree, dict) and tree.get(KIND) == "container" and tree.get("base") in classes.BASES:
        return classes.name_of(classes.BASES[tree["base"]])
    return classes.name_of(type(tree))


def _check_cost(key: Any) -> None:
    """Raise for keys that take too long to hash: nested tuples that share their parts."""
    waiting, cost = [key], 0
    while waiting:
        value = waiting.pop()
        cost += 1
        if cost > _COSTLIEST_KEY:
            # Without this limit a few bytes of nested, shared tuples could keep the process busy without end.
            raise _Wrong("a key or element is too large")
        if isinstance(value, (tuple, frozenset)):
            waiting.extend(value)
