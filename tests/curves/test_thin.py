"""Drawings show every spike and every value that is not finite."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from determined.curves.levels import build_level
from determined.curves.thin import Points, draw

_SPIKES = st.lists(st.tuples(st.integers(0, 9999), st.sampled_from([1e6, -1e6, np.nan, np.inf, -np.inf])), max_size=20)


def _curve(spikes: list[tuple[int, float]], length: int = 10_000) -> Points:
    values = np.sin(np.arange(length) / 50.0)
    for step, value in spikes:
        values[step % length] = value
    return Points(np.arange(length, dtype=np.float64), values)


@given(st.lists(_SPIKES, min_size=1, max_size=3))
def test_no_spike_is_lost(spikes: list[list[tuple[int, float]]]) -> None:
    drawing = draw([_curve(each) for each in spikes])
    assert len(drawing.x) <= 1000
    assert drawing.width is not None
    assert np.all(drawing.x[1:] > drawing.x[:-1])
    for each, curve in zip(spikes, drawing.curves, strict=True):
        last = dict(each)  # a step has one value
        finite = {step: value for step, value in last.items() if np.isfinite(value)}
        for step, value in finite.items():
            near = np.abs(drawing.x - step) <= drawing.width
            assert value in (curve.high if value > 0 else curve.low)[near].tolist()
        assert sum(mark.count for mark in curve.marks) == len(last) - len(finite)
        for step in last.keys() - finite.keys():
            assert any(abs(mark.x - step) <= drawing.width for mark in curve.marks)
        assert curve.points == 10_000
        assert curve.drawn <= 1000


def test_every_point_is_drawn_where_all_fit() -> None:
    one = Points(np.array([1.0, 2.0, 5.0]), np.array([0.5, np.nan, 0.25]))
    other = Points(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    drawing = draw([one, other])
    assert drawing.width is None
    assert drawing.x.tolist() == [1, 2, 3, 5]
    assert np.array_equal(drawing.curves[0].low, [0.5, np.nan, np.nan, 0.25], equal_nan=True)
    assert [(mark.x, mark.kind) for mark in drawing.curves[0].marks] == [(2.0, "NaN")]
    assert np.array_equal(drawing.curves[1].high, [np.nan, 1, 2, np.nan], equal_nan=True)


def test_several_values_at_one_place_are_a_bucket() -> None:
    epochs = Points(np.array([1.0, 1.0, 1.0, 2.0]), np.array([5.0, 1.0, 3.0, 2.0]))
    drawing = draw([epochs])
    assert drawing.width is not None
    assert (drawing.curves[0].low.tolist(), drawing.curves[0].high.tolist()) == ([1.0, 2.0], [5.0, 2.0])
    assert (drawing.curves[0].points, drawing.curves[0].drawn) == (4, 3)


def test_a_level_is_drawn_like_its_points() -> None:
    curve = _curve([(77, 1e6), (5000, np.nan)])
    level = build_level(curve.x, curve.values, 2)
    exact, derived = draw([curve, curve]), draw([level, curve])
    assert np.array_equal(exact.x, derived.x)
    for name in ("low", "high"):
        values = getattr(exact.curves[0], name)
        assert np.array_equal(values, getattr(derived.curves[0], name), equal_nan=True)
    assert exact.curves[0].marks == derived.curves[0].marks
    assert exact.curves[0].first == derived.curves[0].first == (0.0, 0.0)
    assert exact.curves[0].last == derived.curves[0].last == (9999.0, np.sin(9999 / 50))


@given(st.integers(-100, 12_000), st.integers(0, 3000), st.integers(0, 9999))
def test_a_part_has_the_points_in_it(low: int, length: int, spike: int) -> None:
    curve = _curve([(spike, 1e6)])
    drawing = draw([curve], 1000, low, low + length)
    inside = [step for step in range(10_000) if low <= step <= low + length]
    (drawn,) = drawing.curves
    assert drawn.points == len(inside)
    assert (1e6 in drawn.high.tolist()) == (spike in inside)
    assert drawing.width is None if len(inside) <= 1000 else drawn.drawn <= 1000


def test_nothing_to_draw() -> None:
    empty = Points(np.empty(0), np.empty(0))
    assert draw([]).x.tolist() == []
    assert draw([empty]).curves[0].points == 0
    assert draw([empty, _curve([])]).curves[0].drawn == 0
