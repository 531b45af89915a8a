"""A `WorkerStore` that forwards every call by its name, as JSON text, to another one, and executes it twice.

It has what a relay between processes has: a call consists of plain data, and is executed at least once.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from determined.store import experiment_records, output_records, records, rows
from determined.store.workers import unrecorded
from determined.store.workers.local_worker_store import open_worker_store
from determined.store.workers.worker_store import WorkerStore

_SCALARS = (int, float, str, bool, type(None))
# Executed once: a repeated claim answers None, which is allowed, but tests want to see the warning.
_ONCE = {"claim_shared_metric"}


def methods() -> dict[str, dict[str, Any]]:
    """The methods of the interface, each with the types of its arguments and of its result ("return")."""
    names = {name: value for module in _MODULES for name, value in vars(module).items()}
    found = {name: method for name, method in vars(WorkerStore).items() if isinstance(method, types.FunctionType)}
    return {
        name: get_type_hints(method, localns={**names, "Sequence": Sequence})
        for name, method in found.items()
        if not name.startswith("_")
    }


_MODULES = (experiment_records, output_records, records, rows, unrecorded)


class RelayedStore:
    """The store at a place, behind a relay."""

    def __init__(self, place: str) -> None:
        self._store = open_worker_store(place)
        self.place = self._store.place
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        hints = dict(_HINTS[name])
        result = hints.pop("return")

        def call(*args: Any) -> Any:
            self.called.append(name)
            message = json.dumps([encode(value) for value in args])
            for _ in range(1 if name in _ONCE else 2):
                given = [decode(data, hint) for data, hint in zip(json.loads(message), hints.values(), strict=True)]
                answer = json.dumps(encode(getattr(self._store, name)(*given)))
            return decode(json.loads(answer), result)

        return call

    def close(self) -> None:
        self._store.close()


def encode(value: Any) -> Any:
    """Plain data as JSON has it; a named tuple with its name, because rows of several kinds are written together."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"record": type(value).__name__, "fields": [encode(field) for field in value]}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        assert all(isinstance(key, str) for key in value), value
        return {"map": {key: encode(item) for key, item in value.items()}}
    assert type(value) in _SCALARS, f"{value!r} is no plain data"
    return value


def decode(data: Any, hint: Any) -> Any:
    """The value of this type that was encoded."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if data is None:
            return None
        options = [option for option in args if option is not type(None)]
        if isinstance(data, dict) and "record" in data:
            return decode(data, next(option for option in options if option.__name__ == data["record"]))
        return decode(data, options[0])
    if origin is tuple:
        kinds = [args[0]] * len(data) if args[1:] == (...,) else args
        return tuple(decode(item, kind) for item, kind in zip(data, kinds, strict=True))
    if isinstance(data, list):
        return [decode(item, args[0] if args else Any) for item in data]
    if isinstance(data, dict) and "map" in data:
        return {key: decode(item, args[1] if args else Any) for key, item in data["map"].items()}
    if isinstance(data, dict):
        hints = get_type_hints(hint).values()
        return hint(*(decode(field, kind) for field, kind in zip(data["fields"], hints, strict=True)))
    return data


def is_plain(hint: Any) -> bool:
    """Whether every value of this type is plain data."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in _SCALARS or hint is Any or origin is Literal:
        return True
    if origin is dict:
        return args[0] is str and is_plain(args[1])
    if origin in (list, tuple, Sequence, Union, types.UnionType):
        return all(arg is ... or is_plain(arg) for arg in args)
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return all(map(is_plain, get_type_hints(hint).values()))
    return False


_HINTS = methods()
