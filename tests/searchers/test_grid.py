"""Which points a grid has, and in which order they are tried."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from determined.errors import InvalidConfigurationException
from determined.searchers.base import Create, Extended
from determined.searchers.build import build
from determined.searchers.grid import Grid
from determined.searchers.simulate import Behaviour, simulate
from tests.searchers.methods import config


def axis(**fields: Any) -> list[Any]:
    return [point["a"] for point in points_of({"a": fields})]


def points_of(space: dict[str, Any]) -> list[dict[str, Any]]:
    grid = Grid(space)
    return [grid[index] for index in range(len(grid))]


@pytest.mark.parametrize(
    ("low", "high", "count", "values"),
    [
        (0, 9, 4, [0, 3, 6, 9]),
        (0, 5, 3, [0, 3, 5]),  # 2.5 away from zero
        (-5, 0, 3, [-5, -3, 0]),
        (1, 4, 10, [1, 2, 3, 4]),
        (1, 4, 1, [3]),
        (-4, -1, 1, [-3]),
        (0, 10**18 + 1, 2, [0, 10**18 + 1]),
    ],
)
def test_integers(low: int, high: int, count: int, values: list[int]) -> None:
    assert axis(type="int", minval=low, maxval=high, count=count) == values


def test_real_numbers_and_powers() -> None:
    assert axis(type="double", minval=0, maxval=1, count=3) == [0, 0.5, 1]
    assert axis(type="double", minval=0, maxval=1, count=1) == [0.5]
    assert axis(type="log", base=10, minval=-5, maxval=-1, count=5) == pytest.approx([1e-5, 1e-4, 1e-3, 1e-2, 1e-1])
    assert axis(type="log", base=10, minval=-5, maxval=-1, count=1) == pytest.approx([1e-3])
    assert axis(type="loguniform", min=1e-4, max=1, count=3) == pytest.approx([1e-4, 1e-2, 1])


def test_natural_order_the_last_name_varies_fastest() -> None:
    points = points_of({"b": {"type": "categorical", "vals": ["x", "y"]}, "a": {"type": "categorical", "vals": [1, 2]}})
    assert [(point["a"], point["b"]) for point in points] == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]


def test_one_axis_for_each_leaf_and_empty_maps_stay() -> None:
    two = {"type": "categorical", "vals": [0, 1]}
    points = points_of({"g": {"b": two, "a": {"z": two}}, "empty": {}, "list": [1, 2]})
    assert [(p["g"]["a"]["z"], p["g"]["b"]) for p in points] == list(itertools.product([0, 1], repeat=2))
    assert all(point["empty"] == {} and point["list"] == [1, 2] for point in points)


def test_equal_points_are_tried_once() -> None:
    assert axis(type="categorical", vals=[1, 1.0, True, 1, {"a": 1}, {"a": 1}]) == [1, 1.0, True, {"a": 1}]
    assert [type(value) for value in axis(type="categorical", vals=[1, 1.0, True])] == [int, float, bool]


def test_count_is_needed_at_any_depth() -> None:
    with pytest.raises(InvalidConfigurationException, match=r"hyperparameters\.g\.a: .*count"):
        Grid({"g": {"a": {"type": "int", "minval": 0, "maxval": 3}}})


def test_a_huge_grid_is_no_list() -> None:
    axes = {f"a{i}": {"type": "int", "minval": 0, "maxval": 99, "count": 100} for i in range(9)}
    grid = Grid(axes)
    assert len(grid) == 100**9
    assert set(grid[100**9 - 1].values()) == {99}


def test_every_point_is_tried_once_with_any_result() -> None:
    space = {"a": {"type": "int", "minval": 0, "maxval": 9, "count": 10}}
    searcher = build(config("grid", max_concurrent_trials=3), space, 1)
    ends = ["completed", "errored", "invalid_hp", "canceled"]
    tried = []

    def behave(create: Create) -> Behaviour:
        tried.append(create.hparams["a"])
        return Behaviour(lambda time: 0.0, ends_at=1, ends_as=ends[create.number % 4])  # type: ignore[arg-type]

    trace = simulate(searcher, behave, slots=8)
    assert tried == list(range(10))
    assert trace.most_at_once == 3
    assert searcher.progress({}) == 1.0
    with pytest.raises(InvalidConfigurationException, match="one trial for each of its 10 points"):
        searcher.on_event(Extended(20))
