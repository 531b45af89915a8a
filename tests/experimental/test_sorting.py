"""Lists are sorted by values that can be compared; others come last, in both directions."""

from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from determined.curves.summary import statistics_of
from determined.experimental.enums import OrderBy
from determined.experimental.results.lists import in_order


@given(st.lists(st.none() | st.floats()), st.sampled_from(OrderBy))
def test_what_cannot_be_compared_comes_last_and_of_equal_ones_the_oldest_first(
    values: list[float | None], order: OrderBy
) -> None:
    newest_first = reversed([*enumerate(values)])
    found = in_order(newest_first, lambda pair: pair[1], order, lambda pair: pair[0])
    assert sorted(place for place, _ in found) == list(range(len(values)))
    comparable = [pair for pair in found if pair[1] is not None and math.isfinite(pair[1])]
    assert found[: len(comparable)] == comparable
    for (first_place, first), (second_place, second) in pairwise(comparable):
        assert first is not None
        assert second is not None
        in_place = first < second if order is OrderBy.ASC else first > second
        assert in_place or (first == second and first_place < second_place)


@given(st.lists(st.integers() | st.floats() | st.sampled_from([10**400, -(10**400), 2**1023]), min_size=1))
def test_numbers_of_any_size_are_summed_up(values: list[float]) -> None:
    summary = statistics_of(values).plain()
    assert (summary["count"], summary["type"]) == (len(values), "number")
    assert all(name in summary for name in ("sum", "mean", "min", "max"))
    assert str(summary["last"]) == str(values[-1])
