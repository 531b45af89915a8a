"""States as plain data and back: exact for what a program may have, an error for what a file may invent."""

from __future__ import annotations

import collections
import contextlib
import copy
import datetime
import decimal
import enum
import fractions
import functools
import io
import operator
import os
import pathlib
import random
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as np_st

from determined.errors import InvalidCheckpointException
from determined.pytorch.checkpoint.state_codec import Decoder, Encoder, References, problems_in
from determined.pytorch.checkpoint.state_codec.tags import KIND
from tests.helpers.rich_states import CLASSES, AttrDict, Entry, Frozen, Guarded, Mode, Slotted, described, kinds


def stored(value: Any) -> Any:
    """Return the value as it is read from a file of torch without running code."""
    encoder = Encoder(References())
    tree = encoder.encode(value)
    assert encoder.complete, problems_in(tree)
    return through_file(tree)


def through_file(tree: Any) -> Any:
    file = io.BytesIO()
    torch.save(tree, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def restored(tree: Any, template: Any = None) -> Any:
    decoder = Decoder("mine", References())
    value = decoder.decode(tree, template, ("item", "state"))
    decoder.load_states()
    return value


dtypes = st.one_of(
    np_st.boolean_dtypes(),
    np_st.integer_dtypes(endianness="?"),
    np_st.unsigned_integer_dtypes(endianness="?"),
    np_st.floating_dtypes(endianness="?"),
    np_st.complex_number_dtypes(),
    np_st.datetime64_dtypes(),
    np_st.timedelta64_dtypes(),
    np_st.byte_string_dtypes(),
    np_st.unicode_string_dtypes(),
    np_st.array_dtypes(),
)
arrays = dtypes.flatmap(lambda dtype: np_st.arrays(dtype, np_st.array_shapes(min_dims=0, max_dims=3, max_side=3)))
numbers = st.one_of(st.integers(), st.integers(-(3**3000), 3**3000), st.floats(), st.complex_numbers())
hashable = st.one_of(
    st.none(),
    st.booleans(),
    numbers,
    st.text(),
    st.binary(),
    st.sampled_from([Mode.WARM, Mode.COLD]),
    st.builds(pathlib.PurePosixPath, st.text(st.characters(blacklist_characters="\0", codec="utf-8"))),
    st.datetimes(timezones=st.timezones() | st.just(datetime.UTC) | st.none()),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.fractions(),
    st.uuids(),
)
keys = st.one_of(
    hashable,
    st.tuples(hashable, hashable),
    st.frozensets(hashable, max_size=3),
    st.builds(Frozen, st.integers(), hashable),
)
leaves = st.one_of(
    hashable,
    arrays,
    arrays.filter(lambda array: array.ndim == 0).map(lambda array: array[()]),
    st.builds(range, st.integers(), st.integers(), st.integers(1, 5)),
    st.builds(slice, st.integers() | st.none(), st.integers() | st.none()),
    st.builds(bytearray, st.binary()),
    st.sampled_from([torch.arange(3.0), torch.zeros(0, dtype=torch.int8), torch.float16, torch.Size([1, 2])]),
    st.sampled_from([int, dict, np.dtype("f4"), datetime.timezone(datetime.timedelta(hours=2), "CEST")]),
)
states = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4).map(collections.OrderedDict),
        st.builds(collections.deque, st.lists(inner, max_size=4), st.integers(4, 9) | st.none()),
        st.dictionaries(keys, inner, max_size=3).map(lambda items: collections.defaultdict(list, items)),
        st.sets(hashable, max_size=4),
        st.builds(Entry, inner, inner),
        st.builds(lambda **items: AttrDict(items), a=inner, b=inner),
        st.builds(Frozen, st.integers(), inner),
        st.builds(Slotted, inner),
        st.builds(lambda **items: Guarded(**items), a=inner, b=inner),
        inner.map(lambda value: [value, value, {"again": value}]),  # shared
    ),
    max_leaves=12,
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(states)
def test_a_state_survives_exactly(value: Any) -> None:
    before = described(value)
    back = restored(stored(value), value)
    assert described(back) == before
    assert described(value) == before  # not changed


KEYS_OF_SEVERAL_SHAPES = [
    {frozenset(): 1, frozenset([Mode.WARM]): 2},
    {(): 1, (Mode.WARM,): 2, (Mode.COLD, Entry(Mode.WARM, 3)): 4},
    {Entry(None, 0): 1, Entry(Mode.WARM, 0): 2, Entry(frozenset([Mode.COLD]), 0): 3},
    {(1, frozenset()), (1, frozenset([(Mode.WARM, 2)])), ("a", frozenset([Mode.COLD]))},
    {Frozen(1, None): 1, Frozen(1, Mode.WARM): 2, Frozen(1, (Frozen(2, Mode.COLD),)): 3, (Frozen(3, Mode.WARM),): 4},
]


@pytest.mark.parametrize(
    "value", KEYS_OF_SEVERAL_SHAPES, ids=["frozensets", "tuples", "named tuples", "set", "objects"]
)
def test_classes_are_found_in_any_key(value: Any) -> None:
    assert described(restored(stored(value), value)) == described(value)


def test_many_thousand_keys_are_compared_with_few_templates() -> None:
    value = {(number, Mode.WARM, frozenset([Mode.COLD])): number for number in range(50_000)}
    assert restored(stored(value), value) == value


@pytest.mark.parametrize("key", [float("nan"), complex("nan"), (1, float("nan"))], ids=repr)
def test_a_key_with_nan_is_found_again(key: Any) -> None:
    value = {key: Slotted(1), 2: Slotted(2)}
    of_a_new_process = {copy.deepcopy(key): Slotted(0), 2: Slotted(0)}
    assert described(restored(stored(value), of_a_new_process)) == described(value)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(states)
def test_registered_classes_do_as_well_as_those_of_a_template(value: Any) -> None:
    with torch.serialization.safe_globals(CLASSES):
        assert described(restored(stored(value))) == described(value)


def test_plain_states_are_written_as_they_are() -> None:
    """Other programs can read them, and most states are plain."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "x": [1, {2: (3.0, None)}, {"a", "b"}]}
    tree = Encoder(References()).encode(state)
    assert described(tree) == described(state)
    assert tree["model"]._metadata == state["model"]._metadata  # type: ignore[attr-defined]
    assert restored(through_file(tree))["model"]._metadata == state["model"]._metadata  # type: ignore[attr-defined]


def test_shared_values_and_cycles_stay_what_they_are() -> None:
    shared: list[Any] = [1]
    owner = Guarded(shared=shared, items=(shared,))
    vars(owner)["me"] = owner
    shared.append(owner)
    pair: tuple[list[Any]] = ([],)
    pair[0].append(pair)
    state = {"owner": owner, "shared": shared, "pair": pair, "tensor": torch.ones(1)}
    state["tensors"] = [state["tensor"]]
    back = restored(stored(state), state)
    assert back["owner"].me is back["owner"] is back["shared"][1]
    assert back["owner"].shared is back["shared"] is back["owner"].items[0]
    assert back["pair"][0][0] is back["pair"]
    assert back["tensors"][0] is back["tensor"]


def test_objects_of_the_run_are_referred_to() -> None:
    model = torch.nn.Linear(1, 1)
    references = References(model.named_parameters)
    references.add("model", model)
    state = {"owner": Guarded(model=model, weights=[model.weight]), "model": model, "weight": model.weight}
    tree = through_file(Encoder(references).encode(state))
    assert isinstance(tree["weight"], torch.Tensor)  # in plain data it is a value
    back = Decoder("mine", references).decode(tree, state)
    assert back["model"] is back["owner"].model is model
    assert back["owner"].weights[0] is model.weight
    with pytest.raises(InvalidCheckpointException, match=r"checkpoint mine .*it refers to 'model'.*no such object"):
        restored(tree, state)


FUNCTIONS = {
    "numpy.mean": np.mean,
    "numpy.add": np.add,
    "torch.relu": torch.relu,
    "itemgetter": operator.itemgetter(1),
    "cached": functools.lru_cache(len),
    "partial": functools.partial(len, "x"),
    "built-in": len,
    "bound": "".join,
    "module": os,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_every_kind_come_from_the_program(name: str) -> None:
    function = FUNCTIONS[name]
    owner = Guarded(function=function, n=1)
    state = {"in a dict": function, "in a list": [function], "in an object": owner}
    tree = stored(state)
    back = restored(tree, state)
    assert back["in a dict"] is back["in a list"][0] is back["in an object"].function is function
    with torch.serialization.safe_globals([Guarded]):
        alone = restored(tree)
    assert "in a dict" not in alone
    assert alone["in a list"] == [None]
    assert vars(alone["in an object"]) == {"n": 1}


def test_what_a_program_attached_to_a_tensor_is_left_out() -> None:
    tensor = torch.ones(2)
    tensor.note = object()  # type: ignore[attr-defined]
    assert stored({"tensor": tensor})["tensor"].tolist() == [1, 1]


class Sub(torch.Tensor):
    pass


class Zone(datetime.tzinfo):
    pass


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


UNENCODABLE: dict[str, Any] = {
    "lock": threading.Lock(),
    "generator": (number for number in range(0)),
    "random": random.Random(1),
    "numpy generator": np.random.default_rng(1),
    "exception": ValueError("x"),
    "tensor subclass": torch.ones(2).as_subclass(Sub),
    "uninitialised": torch.nn.UninitializedParameter(),
    "file": io.StringIO("x"),
    "bare object": object(),
    "time zone": datetime.datetime(2024, 1, 1, tzinfo=Zone()),  # type: ignore[abstract]
    "record": np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "deep": deep(500),
}


@pytest.mark.parametrize("name", UNENCODABLE)
def test_what_cannot_be_encoded_is_named_and_the_rest_is_kept(name: str) -> None:
    value = UNENCODABLE[name]
    encoder = Encoder(References())
    tree = through_file(encoder.encode({"good": 1, "bad": [0, value], "also good": np.ones(1)}))
    assert not encoder.complete
    (problem,) = problems_in(tree)
    assert problem.path.startswith("bad[1]")
    assert tree["good"] == 1
    assert KIND in tree["also good"]
    with pytest.raises(InvalidCheckpointException, match=r"checkpoint mine .*bad.*could not be saved"):
        restored(tree)


def tags(tree: Any, seen: set[int] | None = None) -> Iterator[dict[str, Any]]:
    seen = set() if seen is None else seen
    if id(tree) in seen:
        return
    seen.add(id(tree))
    if isinstance(tree, dict) and KIND in tree:
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else ():
        yield from tags(part, seen)


def refused(tree: Any, template: Any) -> str:
    with pytest.raises(InvalidCheckpointException) as raised:
        restored(tree, template)
    message = str(raised.value)
    assert message.startswith("checkpoint mine cannot be resumed from: state")
    return message


NOMINAL = ["named tuple", "enum", "flags", "attributes", "list subclass", "dict subclass", "slots", "frozen", "object"]


@pytest.mark.parametrize("kind", [*NOMINAL, "with a state", "nested scheduler", "class"])
@pytest.mark.parametrize("name", ["os.system", "subprocess.Popen", "tests.helpers.rich_states.Tagged", "builtins.eval"])
def test_a_class_that_only_the_file_names_is_refused(kind: str, name: str) -> None:
    value = {kind: kinds(1)[kind]}
    tree = stored(value)
    if kind == "list subclass" and name.endswith("Tagged"):
        name = "tests.helpers.rich_states.Meters"
    next(tags(tree[kind]))["type"] = name
    made = Guarded.made
    assert name in refused(tree, value)
    assert name in refused(tree, {})
    assert name in refused(tree, None)
    assert Guarded.made == made


def test_a_registered_function_is_no_class() -> None:
    value = {"x": Entry(1, 2)}
    tree = stored(value)
    tree["x"]["type"] = "posix.system" if os.name == "posix" else "nt.system"
    with torch.serialization.safe_globals([os.system]):
        assert "system" in refused(tree, value)


@pytest.mark.parametrize("kind", ["object", "frozen", "slots", "list subclass"])
def test_a_missing_attribute_is_refused(kind: str) -> None:
    value = {kind: kinds(1)[kind]}
    tree = stored(value)
    tag = next(tags(tree[kind]))
    for name in list(tag["attributes"]):
        other = copy.copy(tag)
        other["attributes"] = {key: one for key, one in tag["attributes"].items() if key != name}
        assert repr(name) in refused({kind: other}, value)


def test_an_attribute_that_was_deleted_or_never_set_is_no_mistake() -> None:
    begun = {"x": Guarded(a=1, b=2)}
    encoder = Encoder(References())
    encoder.encode(begun)
    later = {"x": Guarded(a=1)}
    tree = through_file(Encoder(References(), encoder.found).encode(later))
    assert vars(restored(tree, begun)["x"]) == {"a": 1}


def test_children_that_know_their_parent_take_no_place_for_each_way_to_them() -> None:
    parent: Any = Guarded(children=[])
    parent.children.extend(Guarded(number=number, parent=parent) for number in range(40))
    encoder = Encoder(References())
    encoder.encode({"first": parent, "again": [parent]})
    assert len(encoder.found) == 41
    later = Encoder(References(), encoder.found)
    later.encode({"again": [parent.children[3].parent], "first": None})  # found by way of its other place
    assert not later.to_register


class Wicked:
    """A class of the program with a property that must not be set from a file."""

    def __init__(self) -> None:
        self.x = 1

    @property
    def power(self) -> Any:
        return 0

    @power.setter
    def power(self, value: Any) -> None:
        raise AssertionError("a file set a property")


@pytest.mark.parametrize("name", ["power", "__class__", "__dict__", "__init__", "__reduce__"])
def test_attributes_of_the_class_are_out_of_reach(name: str) -> None:
    value = {"x": Wicked()}
    tree = stored(value)
    tree["x"]["attributes"][name] = {"x": 2}
    back = restored(tree, value)["x"]
    assert type(back) is Wicked
    assert back.x == 1
    assert back.power == 0


def wrong(tag: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**tag, **changes}


def standard(of: str, *values: Any) -> dict[str, Any]:
    return {KIND: "standard", "of": of, "values": list(values)}


def cyclic(tag: dict[str, Any]) -> dict[str, Any]:
    tag["items"] = [tag, tag]
    return tag


def doubling(levels: int) -> Any:
    """Return a tuple whose hash takes 2**levels steps."""
    value: Any = {KIND: "container", "base": "tuple", "items": ["x"]}
    for _ in range(levels):
        value = {KIND: "container", "base": "tuple", "items": [value, value]}
    return value


HOSTILE: dict[str, Any] = {
    "unknown kind": {KIND: "pickle", "value": b"cos\nsystem\n."},
    "kind that is no text": {KIND: ["object"]},
    "nothing else": {KIND: "object"},
    "unknown value": standard("os.system", "true"),
    "objects in an array": standard("numpy array", "O", [1], "C", torch.zeros(8, dtype=torch.uint8)),
    "objects in a field": standard("numpy array", [("a", "O")], [1], "C", torch.zeros(8, dtype=torch.uint8)),
    "too few bytes": standard("numpy array", "<f8", [10**12], "C", torch.zeros(8, dtype=torch.uint8)),
    "negative shape": standard("numpy array", "<f8", [-1], "C", torch.zeros(8, dtype=torch.uint8)),
    "huge bytearray": standard("bytearray", 10**15),
    "huge timedelta": standard("timedelta", 10**15, 0, 0),
    "huge fraction": standard("fraction", "1e999999999"),
    "month 13": standard("date", 2024, 13, 1),
    "zone outside": standard("zone", "../../../../etc/passwd"),
    "path that is none": standard("path PosixPath", "PosixPath", 3),
    "path of another kind": standard("path PosixPath", "os.system", "x"),
    "huge maxlen": {KIND: "container", "base": "deque", "items": [], "maxlen": 10**30},
    "too many": {KIND: "container", "base": "deque", "items": [1, 2, 3], "maxlen": 2},
    "no such container": {KIND: "container", "base": "os.system", "items": []},
    "unhashable": {KIND: "container", "base": "frozenset", "items": [[]]},
    "a frozenset in itself": cyclic({KIND: "container", "base": "frozenset"}),
    "a tuple in itself": cyclic({KIND: "container", "base": "tuple"}),
    "costly key": {KIND: "container", "base": "set", "items": [doubling(40)]},
    "deep": deep(5000),
    "deep frozensets": None,
    "factory": {KIND: "container", "base": "defaultdict", "items": [], "factory": 3},
    "objects without a shape": {KIND: "object array", "items": [1, 2], "shape": [10**12]},
    "reference": {KIND: "reference", "to": "os.system"},
    "reference that is no text": {KIND: "reference", "to": ["trial"]},
    "class": {KIND: "class", "type": "os.system"},
    "built-in": {KIND: "class", "builtin": "eval"},
    "state of nothing": {KIND: "state", "type": "x.Y", "state": {}},
    "pickled": {KIND: "pickled", "number": 0, "path": "x", "type": "y"},
    "missing": {KIND: "missing", "path": "x", "type": "y", "why": "z"},
}
inner: Any = 1
for _ in range(3000):
    inner = {KIND: "container", "base": "frozenset", "items": [inner]}
HOSTILE["deep frozensets"] = inner


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_state_is_refused_with_its_place(name: str) -> None:
    message = refused({"x": [HOSTILE[name]]}, {"x": [kinds]})
    assert "state['x'][0]" in message
    assert len(message) < 2000


def test_a_combination_that_an_enumeration_does_not_have_is_refused() -> None:
    value = {"x": Mode.WARM}
    tree = stored(value)
    assert "no member 'HOT'" in refused({"x": wrong(tree["x"], name="HOT")}, value)
    del tree["x"]["name"]
    assert "combined" in refused({"x": wrong(tree["x"], value=3)}, value)


def test_a_named_tuple_with_other_fields_is_refused() -> None:
    value = {"x": Entry(1, 2)}
    tree = stored(value)
    assert "2 fields" in refused({"x": wrong(tree["x"], items=[1])}, value)


_TEMPLATE = kinds(1)
_TREE = stored(_TEMPLATE)


def nodes(tree: Any) -> list[Any]:
    """Return every container in a tree, each once."""
    found, waiting, seen = [], [tree], set()
    while waiting:
        node = waiting.pop()
        if not isinstance(node, (dict, list)) or id(node) in seen:
            continue
        seen.add(id(node))
        found.append(node)
        waiting.extend(node.values() if isinstance(node, dict) else node)
    return found


@settings(max_examples=150)
@given(st.data())
def test_a_changed_tree_is_decoded_or_refused_and_nothing_else(data: st.DataObject) -> None:
    tree = copy.deepcopy(_TREE)
    for _ in range(data.draw(st.integers(1, 3))):
        node = data.draw(st.sampled_from([node for node in nodes(tree) if node]))
        place = data.draw(st.sampled_from(sorted(node, key=str) if isinstance(node, dict) else range(len(node))))
        what = data.draw(
            st.sampled_from(["os.system", None, -1, 10**30, [], {}, b"x", node, (), float("nan"), HOSTILE["class"]])
            | st.sampled_from(nodes(tree))
        )
        if data.draw(st.booleans()) and isinstance(node, dict):
            del node[place]
        else:
            node[place] = what
    made = Guarded.made
    with contextlib.suppress(InvalidCheckpointException):
        restored(tree, _TEMPLATE)
    assert Guarded.made == made


class Ordered(enum.IntEnum):
    ONE = 1


def test_values_of_classes_that_derive_from_numbers_and_texts() -> None:
    class Text(str):
        pass

    class Ratio(float):
        pass

    text, ratio = Text("abc"), Ratio(0.1)
    text.note = [1]  # type: ignore[attr-defined]
    state = {"text": text, "ratio": ratio, "one": Ordered.ONE, "long": decimal.Decimal("1e1000")}
    back = restored(stored(state), state)
    assert (type(back["text"]), back["text"], back["text"].note) == (Text, "abc", [1])
    assert (type(back["ratio"]), back["ratio"]) == (Ratio, 0.1)
    assert back["one"] is Ordered.ONE
    assert back["long"] == state["long"]


def test_a_class_of_the_main_script_is_the_same_class_under_its_own_name() -> None:
    value = {"x": Entry(1, fractions.Fraction(1, 2)), "y": uuid.UUID(int=3)}
    tree = stored(value)
    tree["x"]["type"] = "__main__.Entry"
    assert restored(tree, value) == value
