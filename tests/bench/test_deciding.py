"""The benchmark of a searcher's decision runs, with so few trials that its numbers mean nothing."""

from __future__ import annotations

from bench.cases.deciding import deciding
from bench.measure import SMOKE


def test_decisions_of_searchers_have_a_target() -> None:
    rows = deciding(SMOKE)
    assert [row.must_be for row in rows] == ["<= 1 ms", "<= 1 ms", ""]
    assert all(0 < row.detail["median"] <= row.detail["worst"] for row in rows)
