"""`Encoder`: convert a state to tensors and plain data."""

from __future__ import annotations

import collections
import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from determined.pytorch.checkpoint.state_codec import classes, paths, standard
from determined.pytorch.checkpoint.state_codec.known import FoundClasses, Known
from determined.pytorch.checkpoint.state_codec.paths import Path, Step
from determined.pytorch.checkpoint.state_codec.references import References
from determined.pytorch.checkpoint.state_codec.tags import DEEPEST, KIND, PICKLED_PART, Problem, missing, problems_in

_LONGEST_NUMBER = 2000  # bits; torch's restricted loader does not read longer integers
_PLAIN = frozenset((bool, float, complex, str, type(None), torch.dtype, torch.device, torch.Size))
_PLAIN_KEYS = _PLAIN | {int, bytes}
_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_DICTS = (dict, collections.OrderedDict, collections.Counter)
_CONTAINERS = frozenset(classes.BASES.values())

_NOT_VISIBLE = "its values cannot be seen from Python"


class Encoded:
    """Plain data that an encoder produced; another encoder uses it unchanged."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree


class _CannotEncode(Exception):
    """Raised with the reason why a value cannot be encoded."""


class Encoder:
    """Encodes the parts of one state; a value that occurs in several places is written once.

    `known` contains the classes that a resumed run will find in each place. Without it all classes are assumed to be
    found, and `found` lists them afterwards. `tensor` is called with every tensor and returns its replacement.
    `pickled` is called with a value that cannot be encoded, stores it elsewhere and returns its number there.
    """

    def __init__(
        self,
        references: References,
        known: Mapping[Path, Known] | None = None,
        tensor: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor,
        pickled: Callable[[Any], int] | None = None,
    ) -> None:
        self.found = FoundClasses()
        self.to_register: dict[str, str] = {}  # classes that a resumed run finds only if registered, with their place
        self.complete = True  # whether nothing was left out so far
        self._references = references
        self._known = known
        self._tensor = tensor
        self._pickled = pickled
        self._registered = classes.registered()
        self._path: list[Step] = []
        self._objects = 0  # the number of objects that enclose the current place
        self._open_tuples: set[int] = set()
        # By id: the value, kept alive because ids of deleted objects are reused; its encoding; where it was found
        # first.
        self._done: dict[int, tuple[Any, Any, Path]] = {}

    def encode(self, value: Any, *path: Step) -> Any:
        """Return the value as plain data; parts that cannot be encoded are replaced by a `missing` tag."""
        self._path = list(path)
        try:
            return self._encode(value)
        except RecursionError:
            # The path where the recursion ended is of no use, since it is somewhere in the middle of the structure.
            self._path = list(path)
            return self._missing(value, "it is nested too deeply")

    def _encode(self, value: Any) -> Any:
        """Encode a value; plain data stays as it is, and a value that was encoded before is reused."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        # Exact types from here on: a subclass of int or dict may carry attributes, which a plain value would lose.
        if (kind is int or kind is bytes) and _is_readable(value):
            return value
        if kind in _TENSORS:
            return self._encode_tensor(value)
        done = self._done.get(id(value))
        if done is not None:
            if self._known is None:
                self.found.refer(tuple(self._path), done[2])
            return done[1]
        if len(self._path) > DEEPEST:
            return self._missing(value, f"it is nested deeper than {DEEPEST} levels")
        try:
            if kind is list:
                return self._fill_list(value, self._keep(value, []))
            if kind is tuple:
                return self._encode_tuple(value)
            # A dict of the program with the tag's own key would be read as a tag, so it is written as pairs.
            if kind in _DICTS and KIND not in value and self._plain_keys(value):
                return self._fill_dict(value, self._keep(value, kind()))
            if kind is set and self._plain_keys(value):
                return self._keep(value, set(value))
            return self._encode_other(value, kind)
        except _CannotEncode as error:
            return self._missing(value, str(error))

    def _keep(self, value: Any, encoded: Any) -> Any:
        """Remember the encoding of a value; in a cycle through a tuple, the encoding made meanwhile is used."""
        # Paths are only needed to describe the classes before
        # training, and tuples for every value cost time and memory.
        path = tuple(self._path) if self._known is None else ()
        return self._done.setdefault(id(value), (value, encoded, path))[1]

    def _encode_below(self, step: Step, value: Any) -> Any:
        """Encode a value one step below the current path."""
        self._path.append(step)
        try:
            return self._encode(value)
        finally:
            self._path.pop()

    def _items(self, values: Iterable[Any]) -> list[Any]:
        """Encode the items of a sequence."""
        return [self._encode_below(("item", number), value) for number, value in enumerate(values)]

    def _elements(self, values: Iterable[Any]) -> list[Any]:
        """Encode the elements of a set."""
        return [self._encode_below(paths.element(type(value)), value) for value in values]

    def _encode_tuple(self, value: tuple[Any, ...]) -> Any:
        """Encode a tuple as a tuple, or as a tagged container if it contains itself."""
        if id(value) in self._open_tuples:
            # The tuple contains itself through a list, and the restricted loader does not read such tuples.
            return self._fill_container(self._keep(value, {KIND: "container"}), value, "tuple")
        self._open_tuples.add(id(value))
        encoded = tuple(self._items(value))
        self._open_tuples.discard(id(value))
        return self._keep(value, encoded)

    def _fill_list(self, value: list[Any], encoded: list[Any]) -> list[Any]:
        """Append the encoded items of a list one by one, because items may refer to the list itself."""
        for number, one in enumerate(value):
            encoded.append(self._encode_below(("item", number), one))
        return encoded

    def _fill_dict(self, value: Any, encoded: Any) -> Any:
        """Add the encoded items of a dict, and the versions of layers that a model's state dict has."""
        for key, one in value.items():
            encoded[key] = self._encode_below(("item", key), one)
        if hasattr(value, "_metadata"):  # the versions of a model's layers, which load_state_dict reads
            encoded._metadata = self._encode_below(("attribute", "_metadata"), dict(value._metadata))
        return encoded

    def _pairs(self, items: Iterable[tuple[Any, Any]]) -> list[Any]:
        """Encode the items of a dict with keys of any class as pairs of key and value."""
        return [
            [self._encode_below(paths.element(type(key)), key), self._encode_below(("item", key), one)]
            for key, one in items
        ]

    def _plain_keys(self, keys: Iterable[Any]) -> bool:
        """Return whether keys can be keys of a dict in the file."""
        kinds = set(map(type, keys))
        if (int in kinds or bytes in kinds) and not all(map(_is_readable, keys)):
            return False
        if kinds <= _PLAIN_KEYS:
            return True
        if not kinds <= _PLAIN_KEYS | {tuple}:
            return False
        return all(self._plain_keys(key) for key in keys if type(key) is tuple)

    def _encode_tensor(self, tensor: torch.Tensor) -> Any:
        """Return the tensor, or inside an object a reference if it belongs to a model or optimizer."""
        # Inside an object a parameter is part of a network that a resumed run has itself; elsewhere it is a value.
        if self._objects:
            name = self._references.tensor_name(tensor)
            if name is not None:
                return {KIND: "reference", "to": name}
        done = self._done.get(id(tensor))
        if done is not None:
            return done[1]
        bare = tensor.detach() if vars(tensor) else tensor  # without attributes that the program added
        return self._keep(tensor, self._tensor(bare))

    def _encode_other(self, value: Any, kind: type) -> Any:
        """Return a value that is neither plain data nor a plain container as a tag or reference."""
        if isinstance(value, Encoded):
            self.complete = self.complete and not problems_in(value.tree)
            return value.tree
        # Before the other rules: models and optimizers have a state_dict() too, and are saved elsewhere.
        name = self._references.name_of(value)
        if name is not None:
            return {KIND: "reference", "to": name}
        standard_name = standard.name_of(value)
        if standard_name is not None:
            return self._keep(value, self._encode_standard(value, standard_name))
        if classes.is_program_value(value):
            return {KIND: "program"}
        if isinstance(value, enum.Enum):
            return self._pickled_if_unknown(value, kind) or self._encode_enum(value)
        if isinstance(value, type):
            return self._encode_class(value)
        if kind in _CONTAINERS:
            return self._fill_container(self._keep(value, {KIND: "container"}), value, classes.BASES_BY_CLASS[kind])
        # A subclass may hold data beside its elements, which the restricted loader cannot restore.
        if isinstance(value, torch.Tensor):
            raise _CannotEncode("only torch.Tensor, Parameter and Buffer themselves can be stored")
        if classes.is_stateful(value) and self._is_known(kind):
            return self._encode_stateful(value)
        return self._pickled_if_unknown(value, kind) or self._encode_object(value, kind)

    def _encode_standard(self, value: Any, name: str) -> Any:
        """Encode a value of the standard library or numpy."""
        if type(value) is np.ndarray and value.dtype == object:
            items = [self._encode_below(("item", number), one) for number, one in enumerate(value.ravel().tolist())]
            return {KIND: "object array", "shape": list(value.shape), "items": items}
        try:
            values = standard.values_of(value, name)
        except (ValueError, TypeError) as error:
            raise _CannotEncode(str(error)) from error
        return {KIND: "standard", "of": name, "values": self._items(values)}

    def _encode_enum(self, value: enum.Enum) -> Any:
        """Encode a member of an enumeration by name, or a combination of flags by value."""
        self._record_class(value, type(value))
        tag = {KIND: "enum", "type": classes.name_of(type(value))}
        if type(value).__members__.get(str(value.name)) is value:
            return {**tag, "name": value.name}
        if isinstance(value, enum.Flag):
            return {**tag, "value": value.value}
        raise _CannotEncode("it is no member of its class")

    def _encode_class(self, value: type) -> Any:
        """Encode a class that is itself a value, by its name."""
        if classes.BUILTIN_CLASSES.get(value.__name__) is value:
            return {KIND: "class", "builtin": value.__name__}
        self._record_class(value, value)
        return {KIND: "class", "type": classes.name_of(value)}

    def _encode_stateful(self, value: Any) -> Any:
        """Return the state of an object that a resumed run has as well, and that restores its own state."""
        self._note(value)
        tag = self._keep(value, {KIND: "state", "type": classes.name_of(type(value))})
        tag["state"] = self._encode_below(paths.STATE, value.state_dict())
        return tag

    def _encode_object(self, value: Any, kind: type) -> Any:
        """Return the items and attributes of an instance of a Python class."""
        layout = classes.layout_of(kind)
        if layout is None:
            raise _CannotEncode(_NOT_VISIBLE)
        self._record_class(value, kind)
        # `complete` is per object here, so that an object can be pickled as a whole if one of its parts is missing.
        was_complete, self.complete = self.complete, True
        attributes = classes.attributes_of(value)
        tag = self._keep(value, {KIND: "object", "type": classes.name_of(kind)})
        known = (self._known or {}).get(tuple(self._path))
        expected = layout.fields | (known.attributes if known is not None and known.kind is kind else frozenset())
        self._objects += 1
        try:
            self._fill_container(tag, value, layout.base)
            if layout.has_dict and object.__getattribute__(value, "__dict__") is value:
                tag["items are attributes"] = True  # an AttrDict
                attributes = {}
            tag["attributes"] = {
                str(name): self._encode_below(("attribute", name), one) for name, one in attributes.items()
            }
            tag["without"] = sorted(expected - attributes.keys())
        finally:
            self._objects -= 1
        if not self.complete and self._pickled is not None and self._pickle_whole_object(value, tag):
            self.complete = was_complete
        self.complete = self.complete and was_complete
        return tag

    def _fill_container(self, tag: dict[str, Any], value: Any, base: str) -> dict[str, Any]:
        """Add the items of a container, or of an object whose class derives from one, to a tag."""
        kind = classes.BASES.get(base)
        tag["base"] = base
        if kind is None:
            return tag
        if issubclass(kind, dict):
            tag["items"] = self._pairs(kind.items(value))
            if kind is collections.defaultdict:
                tag["factory"] = self._encode_below(paths.FACTORY, value.default_factory)
        elif kind in (set, frozenset):
            tag["items"] = self._elements(kind.__iter__(value))
        elif kind in (list, tuple, collections.deque):
            tag["items"] = self._items(kind.__iter__(value))
            if kind is collections.deque:
                tag["maxlen"] = value.maxlen
        else:
            tag["value"] = self._encode_below(("attribute", "value"), _plain_number(value, kind))
        return tag

    def _is_known(self, kind: Any) -> bool:
        """Return whether a resumed run will have a value of this class in this place."""
        if self._known is None:
            return True
        known = self._known.get(tuple(self._path))
        return known is not None and known.kind is kind

    def _record_class(self, value: Any, kind: Any) -> None:
        """Record a class that decoding will need."""
        self._note(value)
        if not self._is_known(kind) and not self._is_registered(kind):
            self.to_register.setdefault(classes.name_of(kind), paths.shown(self._path))

    def _is_registered(self, kind: Any) -> bool:
        """Return whether the program registered a class with torch, so that a resumed run finds it by name."""
        return self._registered.get(classes.name_of(kind)) is kind

    def _pickled_if_unknown(self, value: Any, kind: type) -> Any:
        """Return a tag for the value pickled, if pickles are allowed and a resumed run would not find its class."""
        if self._pickled is None or self._is_known(kind) or self._is_registered(kind):
            return None
        try:
            return self._keep(value, self._pickled_tag(value, self._pickled(value)))
        except Exception:  # noqa: BLE001  (pickling a program's object can raise anything; it is encoded then)
            return None

    def _note(self, value: Any) -> None:
        """Record the class and attributes of a value at the current place, before training."""
        if self._known is not None:
            return
        if isinstance(value, type):
            self.found.add(tuple(self._path), Known(value, frozenset()))
        elif not isinstance(value, (torch.Tensor, np.ndarray)):
            self.found.add(tuple(self._path), Known(type(value), frozenset(classes.attributes_of(value))))

    def _missing(self, value: Any, why: str) -> Any:
        """Return a tag for a value that cannot be encoded: pickled if that is allowed, else missing."""
        if self._pickled is not None:
            try:
                return self._pickled_tag(value, self._pickled(value))
            except Exception as error:  # noqa: BLE001  (pickling a program's object can raise anything)
                why = f"it cannot be pickled either: {type(error).__name__}: {error}"
        self.complete = False
        return missing(Problem(paths.shown(self._path), classes.name_of(type(value)), why))

    def _pickle_whole_object(self, value: Any, tag: dict[str, Any]) -> bool:
        """Pickle a complete object, because a part of it can be neither encoded nor pickled separately."""
        try:
            number = self._pickled(value) if self._pickled is not None else 0
        except Exception:  # noqa: BLE001  (as above; the missing part is named in its own place)
            return False
        tag.clear()
        tag.update(self._pickled_tag(value, number))
        return True

    def _pickled_tag(self, value: Any, number: int) -> dict[str, Any]:
        """Return the tag for a value that was pickled into the separate file under this number."""
        path = paths.shown(self._path)
        return {KIND: PICKLED_PART, "number": number, "path": path, "type": classes.name_of(type(value))}


def encoded(value: Any, name: str) -> Encoded:
    """Encode a state that does not belong to the trial's objects; `name` is used in messages.

    A resumed run finds the classes in it only if they are registered.
    """
    return Encoded(Encoder(References(), {}).encode(value, ("item", name)))


def _is_readable(value: Any) -> bool:
    """Return whether the restricted loader can read a value: not very long integers, nor empty bytes."""
    if type(value) is int:
        return value.bit_length() <= _LONGEST_NUMBER
    return type(value) is not bytes or bool(value)


def _plain_number(value: Any, kind: type) -> Any:
    """Return an instance of a subclass of int, float, complex, str or bytes as an instance of that built-in class.

    The methods of the built-in class are used, so no code of the subclass runs.
    """
    if kind is int:
        return int.__add__(value, 0)
    if kind is float:
        return float.__pos__(value)
    if kind is complex:
        return complex.__pos__(value)
    if kind is str:
        return str.__add__(value, "")
    return bytes(memoryview(value))
