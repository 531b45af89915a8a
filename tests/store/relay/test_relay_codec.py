"""A relay does not change arguments and results, for all plain data."""

from __future__ import annotations

import hashlib
import json
import math
import types
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from determined.store.relay import codec, messages
from determined.store.rows import LogRow, MetricRow, StatusRow

# NaN is compared separately below; every other value must be equal. Texts include NUL and lone surrogates.
FLOATS = st.floats(allow_nan=True, allow_infinity=True)
TEXTS = st.text(alphabet=st.characters(), max_size=20)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | FLOATS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
INTERFACE = {2: "005ffe302bae6380"}  # by version of the protocol


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for values of a type that the interface names."""
    origin, args = get_origin(hint), get_args(hint)
    simple = {int: st.integers(-(2**80), 2**80), float: FLOATS, str: TEXTS, bool: st.booleans(), Any: PLAIN}
    if hint in simple:
        return simple[hint]
    if hint is type(None):
        return st.none()
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, types.UnionType):
        return st.one_of([values(arg) for arg in args])
    if origin in (list, Sequence):
        return st.lists(values(args[0]), max_size=3)
    if origin is tuple:
        if args[1:] == (...,):
            return st.lists(values(args[0]), max_size=3).map(tuple)
        return st.tuples(*map(values, args))
    if origin is dict:
        return st.dictionaries(TEXTS, values(args[1]), max_size=3)
    return st.builds(hint, *map(values, get_type_hints(hint).values()))


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal and of the same types, recursively."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        # The sign distinguishes the two zeros.
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@pytest.mark.parametrize("name", sorted(codec.method_names()))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors])
@given(data=st.data())
def test_arguments_and_results_survive(name: str, data: st.DataObject) -> None:
    hints = codec.type_hints(name)
    result = hints.pop("return")
    given_ = [data.draw(values(hint)) for hint in hints.values()]
    encoded = [[[codec.tagged(row) for row in given_[0]]]] if name == "write" else [given_]
    body = messages.request(7, "a job", name, json.dumps(*encoded), hello=False)
    asked = messages.checked_request(messages.parse(body))
    assert (asked.number, asked.job, asked.call) == (7, "a job", name)
    assert same(codec.method(name).decoded(asked.arguments), given_)

    returned = data.draw(values(result))
    answer = messages.parse(messages.answered(7, returned))
    assert messages.error_of(answer) is None
    assert same(codec.method(name).result(answer["result"]), returned)


ROW = ["MetricRow", 1, 1, 0, "training", 1, "{}", 5.0, 0]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("attempts", []),
        ("attempts", [1, 2]),
        ("attempts", ["1"]),
        ("attempts", [True]),
        ("attempts", [1.0]),
        ("attempts", [None]),
        ("attempts", [[1]]),
        ("attempts", [{"trial_id": 1}]),
        ("find_metric", [1, 2, 3, 4]),
        ("write", ["rows"]),
        ("write", [{}]),
        ("write", [[[]]]),
        ("write", [[None]]),
        ("write", [[["MetricRow"]]]),
        ("write", [[[*ROW, 1]]]),
        ("write", [[["Trial", *ROW[1:]]]]),
        ("write", [[[["MetricRow"], *ROW[1:]]]]),
        ("write", [[["__class__", *ROW[1:]]]]),
        ("write", [[[*ROW[:6], {}, 5.0, 0]]]),
        ("write", [[["EndRow", 1, 1, "asleep", 5.0, 1.0, 0, None, None]]]),
        ("write", [[["MetadataRow", 1, 1, [], 0]]]),
        ("write", [[["CheckpointRow", "id", 1, 1, 1, {}, {"file": "large"}, "/", 5.0]]]),
        ("record_use", [1, "id", [1]]),
        ("record_use", [1, "id", [1, 2, 3]]),
        ("withdraw_uploads", ["keys"]),
    ],
)
def test_data_of_another_type_are_refused(name: str, arguments: list[Any]) -> None:
    with pytest.raises(codec.WrongType, match="expected"):
        codec.method(name).decoded(arguments)


def test_rows_of_several_types_are_distinguished() -> None:
    rows = [
        MetricRow(1, 1, 0, "training", 1, "{}", 5.0),
        StatusRow(1, 1, "training", 0.5),
        LogRow(1, 1, 0, 0, "stdout", "a line", 5.0),
    ]
    encoded = json.loads(json.dumps([[codec.tagged(row) for row in rows]]))
    (decoded,) = codec.method("write").decoded(encoded)
    assert [type(row) for row in decoded] == [MetricRow, StatusRow, LogRow]
    assert decoded == rows


@pytest.mark.parametrize("name", ["close", "place", "__class__", "__init__", "_call", "unknown", ""])
def test_nothing_else_can_be_called(name: str) -> None:
    with pytest.raises(KeyError):
        codec.method(name)


def test_a_change_of_the_interface_changes_the_version_of_the_protocol() -> None:
    assert {messages.PROTOCOL: fingerprint()} == INTERFACE, "increase PROTOCOL, and write the new fingerprint here"


def fingerprint() -> str:
    """Return a text that changes with every method, argument, result and field that is relayed."""
    described: dict[str, Any] = {}

    def describe(hint: Any) -> str:
        if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
            if hint.__name__ not in described:
                described[hint.__name__] = None
                described[hint.__name__] = {name: describe(of) for name, of in get_type_hints(hint).items()}
            return hint.__name__
        origin = get_origin(hint)
        if origin in (Union, types.UnionType):  # which of the two it is depends on the version of Python
            return f"union{[describe(arg) for arg in get_args(hint)]}"
        if origin is Literal:
            return f"literal{list(get_args(hint))}"
        return f"{getattr(origin or hint, '__name__', hint)}{[describe(arg) for arg in get_args(hint)]}"

    for name in codec.method_names():
        described[f"{name}()"] = {each: describe(hint) for each, hint in codec.type_hints(name).items()}
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]
