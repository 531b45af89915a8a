"""The arguments and results of `WorkerStore` as JSON, and back to the types that the interface declares.

JSON encodes a named tuple as the list of its fields, and the declared types say which record a list is. Only the rows
of `write` may be of several types, so they carry their name. Nothing but plain data is ever created from a message.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from determined.store.workers.worker_store import WorkerStore

Decoder = Callable[[Any], Any]


class WrongType(ValueError):
    """Data that are not of the declared type."""


class RelayedMethod(NamedTuple):
    """A method of the interface: how its arguments and its result are decoded."""

    name: str
    arguments: tuple[Decoder, ...]
    result: Decoder

    def decoded(self, arguments: list[Any]) -> list[Any]:
        """Return the arguments that were encoded. Raise `WrongType` if their number or a type is wrong."""
        if len(arguments) != len(self.arguments):
            raise WrongType(f"expected {len(self.arguments)} arguments, got {len(arguments)}")
        return [decode(data) for decode, data in zip(self.arguments, arguments, strict=True)]


@cache
def method_names() -> frozenset[str]:
    """Return the names of the calls that are relayed: all of the interface except `close`, which stays local."""
    functions = {name for name, value in vars(WorkerStore).items() if isinstance(value, types.FunctionType)}
    return frozenset(name for name in functions if not name.startswith("_")) - {"close"}


# Computed for each method when it is first called: a trial uses few of them, and type hints are slow to evaluate.
@cache
def method(name: str) -> RelayedMethod:
    """Return a method of the interface. Raise KeyError for any other name."""
    if name not in method_names():
        raise KeyError(name)
    hints = type_hints(name)
    result = hints.pop("return")
    # A worker believes its runner, which has these values from the store; the runner checks what workers send.
    return RelayedMethod(name, tuple(decoder(hint, True) for hint in hints.values()), decoder(result, False))


def type_hints(name: str) -> dict[str, Any]:
    """Return the types of a method's arguments in order, and that of its result as "return"."""
    # Imported on use, as in `workers/worker_store.py`, which names these types for annotations only.
    from determined.store import experiment_records, output_records, records, rows
    from determined.store.workers import unrecorded

    modules = (experiment_records, output_records, records, rows, unrecorded)
    names = {name: value for module in modules for name, value in vars(module).items()}
    return get_type_hints(getattr(WorkerStore, name), localns={**names, "Sequence": Sequence})


def tagged(row: tuple[Any, ...]) -> list[Any]:
    """Return a row with its type's name in front, as `write` encodes it."""
    return [type(row).__name__, *row]


@cache
def decoder(hint: Any, checked: bool) -> Decoder:
    """Return the function that decodes values of a type; it raises `WrongType` for data of another shape.

    With `checked`, the types of scalars and the values of literals are checked as well.
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return _unchanged
    if origin in (Union, types.UnionType):
        return _one_of([option for option in args if option is not types.NoneType], types.NoneType in args, checked)
    if origin in (list, Sequence):
        return _list(decoder(args[0], checked))
    if origin is tuple:
        return _tuple(args, checked)
    if origin is dict:
        return _mapping(decoder(args[1], checked))
    if isinstance(hint, type) and issubclass(hint, tuple):
        return _record(hint, checked)
    if not checked:
        return _unchanged
    if origin is Literal:
        return _word(frozenset(args))
    return _scalar((int, float) if hint is float else (hint,))


def _unchanged(data: Any) -> Any:
    """Return data as it is: the decoder of values whose type is not checked."""
    return data


def _scalar(kinds: tuple[type, ...]) -> Decoder:
    """Return a decoder that only accepts values of these types."""

    def decode(data: Any) -> Any:
        # Not `isinstance`, because True is no number here.
        if type(data) not in kinds:
            raise WrongType(f"expected {kinds[-1].__name__}, got {type(data).__name__}")
        return data

    return decode


def _word(words: frozenset[str]) -> Decoder:
    """Return the decoder of a literal type, which only accepts these words."""

    def decode(data: Any) -> Any:
        if type(data) is not str or data not in words:
            raise WrongType(f"expected one of {', '.join(sorted(words))}")
        return data

    return decode


def _list(item: Decoder) -> Decoder:
    """Return the decoder of a list, given that of its items."""

    def decode(data: Any) -> list[Any]:
        return [item(each) for each in _checked_list(data)]

    return decode


def _tuple(args: tuple[Any, ...], checked: bool) -> Decoder:
    """Return the decoder of a tuple with these type arguments; JSON has lists instead."""
    items = [decoder(arg, checked) for arg in args if arg is not ...]
    if args[1:] == (...,):
        every = _list(items[0])
        return lambda data: tuple(every(data))

    def decode(data: Any) -> tuple[Any, ...]:
        if len(_checked_list(data)) != len(items):
            raise WrongType(f"expected {len(items)} values, got {len(data)}")
        return tuple(item(each) for item, each in zip(items, data, strict=True))

    return decode


def _mapping(value: Decoder) -> Decoder:
    """Return the decoder of a dict with text keys, given that of its values."""

    def decode(data: Any) -> dict[str, Any]:
        if type(data) is not dict:
            raise WrongType(f"expected an object, got {type(data).__name__}")
        return data if value is _unchanged else {name: value(each) for name, each in data.items()}

    return decode


def _record(kind: Any, checked: bool) -> Decoder:
    """Return the decoder of a named tuple, which is sent as the list of its fields."""
    fields = [decoder(hint, checked) for hint in get_type_hints(kind).values()]

    def decode(data: Any) -> Any:
        if len(_checked_list(data)) != len(fields):
            raise WrongType(f"expected the {len(fields)} fields of {kind.__name__}, got {len(data)}")
        return kind._make([field(each) for field, each in zip(fields, data, strict=True)])

    return decode


def _one_of(options: list[Any], optional: bool, checked: bool) -> Decoder:
    """Return the decoder of a union: one type or None, or several types of records that carry their name."""
    one = _tagged_record(options, checked) if len(options) > 1 else decoder(options[0], checked)
    return (lambda data: None if data is None else one(data)) if optional else one


def _tagged_record(options: list[Any], checked: bool) -> Decoder:
    """Return the decoder of a union of named tuples, which are sent with the name of their class first."""
    named = {option.__name__: decoder(option, checked) for option in options}

    def decode(data: Any) -> Any:
        name = data[0] if _checked_list(data) else None
        if type(name) is not str or name not in named:
            raise WrongType(f"expected one of {', '.join(named)}")
        return named[name](data[1:])

    return decode


def _checked_list(data: Any) -> list[Any]:
    """Return the data if it is a list, else raise `WrongType`."""
    if type(data) is not list:
        raise WrongType(f"expected a list, got {type(data).__name__}")
    return data
