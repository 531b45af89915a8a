"""Levels of detail equal the points that they summarize, however they were computed."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from determined.curves.levels import Floats, Level, build_level, coarsened, fitting_exponent, joined

_X = st.one_of(st.integers(0, 5000).map(float), st.floats(-1e6, 1e6))
_VALUES = st.floats(allow_nan=True, allow_infinity=True)
_POINTS = st.lists(st.tuples(_X, _VALUES), max_size=60)
_EXPONENTS = st.integers(-4, 20)


def _arrays(points: list[tuple[float, float]]) -> tuple[Floats, Floats]:
    pairs = np.array(points, dtype=np.float64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _assert_same(one: Level, other: Level) -> None:
    assert one.exponent == other.exponent
    assert np.array_equal([one.first_x, one.first_value], [other.first_x, other.first_value], equal_nan=True)
    assert np.array_equal([one.last_x, one.last_value], [other.last_x, other.last_value], equal_nan=True)
    for name in ("buckets", "counts", "nans", "positive_infinities", "negative_infinities"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name
    for name in ("low", "high"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), name


@given(_POINTS, _EXPONENTS)
def test_a_bucket_has_the_extremes_of_its_points(points: list[tuple[float, float]], exponent: int) -> None:
    level = build_level(*_arrays(points), exponent)
    expected: dict[int, list[float]] = {}
    for x, value in sorted(points, key=lambda point: point[0]):
        expected.setdefault(math.floor(x / 2.0**exponent), []).append(value)
    assert level.buckets.tolist() == sorted(expected)
    assert level.points == len(points)
    first = next((point for point in points if math.isfinite(point[1])), None)
    assert first == (None if math.isnan(level.first_x) else (level.first_x, level.first_value))
    last = next((point for point in reversed(points) if math.isfinite(point[1])), None)
    assert last == (None if math.isnan(level.last_x) else (level.last_x, level.last_value))
    for place, bucket in enumerate(level.buckets.tolist()):
        values = expected[bucket]
        finite = [value for value in values if math.isfinite(value)]
        assert level.nans[place] == sum(map(math.isnan, values))
        assert level.positive_infinities[place] == values.count(math.inf)
        assert level.negative_infinities[place] == values.count(-math.inf)
        if not finite:
            assert math.isnan(level.low[place])
            assert math.isnan(level.high[place])
        else:
            assert (level.low[place], level.high[place]) == (min(finite), max(finite))


@given(_POINTS, _EXPONENTS, st.integers(0, 12))
def test_a_coarser_level_is_that_of_the_points(points: list[tuple[float, float]], exponent: int, more: int) -> None:
    x, values = _arrays(points)
    _assert_same(coarsened(build_level(x, values, exponent), exponent + more), build_level(x, values, exponent + more))


@given(_POINTS, st.integers(0, 60), _EXPONENTS, st.integers(0, 6))
def test_joined_levels_are_that_of_all_points(
    points: list[tuple[float, float]], cut: int, exponent: int, more: int
) -> None:
    first, second = points[:cut], points[cut:]
    found = joined(build_level(*_arrays(first), exponent + more), build_level(*_arrays(second), exponent))
    _assert_same(found, build_level(*_arrays(points), exponent + more))


@given(st.floats(-1e15, 1e15), st.floats(0, 1e15), st.integers(1, 1000))
def test_the_fitting_exponent_is_the_smallest(low: float, span: float, buckets: int) -> None:
    high = low + span

    def needed(exponent: int) -> int:
        return math.floor(high / 2.0**exponent) - math.floor(low / 2.0**exponent) + 1

    exponent = fitting_exponent(low, high, buckets)
    # Two adjacent numbers can be on both sides of a border of buckets of any width.
    assert needed(exponent) <= buckets or exponent == 62
    assert high == low or exponent == -40 or needed(exponent - 1) > buckets
