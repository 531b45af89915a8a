"""Curves as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from determined.cli.display.safe_text import width as columns_of
from determined.cli.experiment.comparison.chart import Curve, draw

NAN, INF = float("nan"), float("inf")


def picture(lines: list[str]) -> list[str]:
    """Return what is right of the axis, without the lines below it."""
    return [line.partition(" |")[2] for line in lines[:-2]]


def test_a_curve_that_falls() -> None:
    chart = draw([[(0, 4.0), (10, 0.0)]], width=31, height=4)
    assert chart.lines == [
        "4 |AAAAAAA",
        "  |      AAAAAAAA",
        "  |              AAAAAAAA",
        "0 |                     AAAAAAA",
        "  +----------------------------",
        "   0                         10",
    ]
    assert not chart.logarithmic


def test_curves_are_distinguished_by_letters_or_colours() -> None:
    curves: list[Curve] = [[(0, 0.0), (1, 0.0)], [(0, 1.0), (1, 1.0)]]
    upper, lower = picture(draw(curves, width=20, height=2).lines)
    assert (set(upper), set(lower)) == ({"B"}, {"A"})
    upper, lower = picture(draw(curves, width=20, height=2, paint=lambda character, curve: f"{curve}").lines)
    assert (set(upper), set(lower)) == ({"1"}, {"0"})
    upper, _ = picture(draw(curves, width=20, height=2, paint=lambda character, curve: character).lines)
    assert set(upper) == {"⠉"}  # the two upper dots


def test_curves_that_lie_on_each_other_are_all_seen() -> None:
    row, _ = picture(draw([[(0, 0.0), (1, 0.0)]] * 3, width=15, height=2).lines)
    assert row == "ABCABCABCABC"


def test_one_point_and_a_constant_are_in_the_middle() -> None:
    one = draw([[(7, 5.0)]], width=43, height=5)
    assert [line for line in one.lines if "A" in line] == ["5 |" + " " * 20 + "A"]
    assert one.lines[-1].strip() == "7"
    constant = draw([[(1, 5.0), (2, 5.0)]], width=43, height=5)
    assert [line for line in constant.lines if "A" in line] == ["5 |" + "A" * 40]


def test_what_is_no_number_is_a_gap() -> None:
    (row,) = {line for line in picture(draw([[(0, 1.0), (1, NAN), (2, INF), (3, 1.0)]], width=43).lines) if line}
    assert row == "A" + " " * 38 + "A"
    without_numbers: list[list[list[tuple[float, float]]]] = [[], [[]], [[(1, NAN), (2, -INF)]]]
    for nothing in without_numbers:
        assert draw(nothing, width=40).lines == ["(no numbers to draw)"]


@pytest.mark.parametrize(
    ("values", "logarithmic"), [([1e-4, 1.0], True), ([1e-3, 1.0], False), ([0.0, 1e9], False), ([-1.0, 1e9], False)]
)
def test_more_than_three_decades_of_positive_numbers_are_logarithmic(values: list[float], logarithmic: bool) -> None:
    assert draw([list(enumerate(values))], width=40).logarithmic is logarithmic


@given(
    curves=st.lists(st.lists(st.tuples(st.integers(0, 10**9), st.floats()), max_size=5), max_size=3),
    width=st.integers(40, 200),
)
def test_any_reported_values_fit(curves: list[list[tuple[float, float]]], width: int) -> None:
    for paint in (None, lambda character, curve: character):
        assert all(columns_of(line) <= width for line in draw(curves, width=width, paint=paint).lines)
