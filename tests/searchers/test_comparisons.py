"""The comparisons that a searcher records must be those from which its actions follow."""

from __future__ import annotations

import pytest

from determined.searchers.base import Action, Continue, Event, Pause, Stop, Validated
from determined.searchers.decision_reason import Comparison
from determined.searchers.simulate import simulate
from tests.searchers.methods import METHODS, make, trouble

COMPARING = [name for name in METHODS if name.split(",")[0] in ("async_halving", "adaptive_asha", "promotion", "pbt")]
SEEDS = range(6)


@pytest.mark.parametrize("name", [*COMPARING, "optuna, halving"])
def test_places_agree_with_the_metrics_and_with_the_actions(name: str) -> None:
    """Random searches with failures and NaN: each place is recomputed from all results that the rung has."""
    stopped = promoted = 0
    for seed in SEEDS:
        searcher = make(name, seed)
        sign = 1 if "largest" not in name else -1
        results: dict[tuple[int, int, str], dict[int, float | None]] = {}

        def watch(
            event: Event | None,
            actions: list[Action],
            searcher: object = searcher,
            sign: int = sign,
            results: dict[tuple[int, int, str], dict[int, float | None]] = results,
        ) -> None:
            nonlocal stopped, promoted
            found = list(searcher.comparisons)  # type: ignore[attr-defined]
            for comparison in found:
                known = results.setdefault((comparison.bracket, comparison.rung, comparison.at), {})
                known[comparison.number] = comparison.metric
            for comparison in found:
                check_place(comparison, results[comparison.bracket, comparison.rung, comparison.at], sign)
            last = {comparison.number: comparison for comparison in found}
            for action in actions:
                if isinstance(action, Stop) and not action.finished and action.number in last and "pbt" not in name:
                    stopped += 1
                    assert last[action.number].place > last[action.number].kept or last[action.number].metric is None
                if isinstance(action, Continue) and action.number in last:
                    promoted += 1
                    assert last[action.number].place <= last[action.number].kept
                if isinstance(action, Pause) and action.number in last:
                    assert isinstance(event, Validated)
            if isinstance(event, Validated) and any(isinstance(action, (Continue, Stop)) for action in actions):
                assert found

        simulate(searcher, lambda create, seed=seed: trouble(create, seed), slots=3, watch=watch)  # type: ignore[misc]
    assert promoted > 0
    assert stopped > 0 or "promotion" in name or name == "pbt"


def check_place(comparison: Comparison, known: dict[int, float | None], sign: int) -> None:
    """A place lies between the number of better results and that of results that are at least as good.

    Results of trials that ended before the rung are counted in `of`, but are no comparisons.
    """
    assert 1 <= comparison.place <= comparison.of
    assert comparison.of >= len(known)
    if comparison.metric is not None:
        others = [value for number, value in known.items() if number != comparison.number and value is not None]
        better = sum(sign * value < sign * comparison.metric for value in others)
        equal = sum(value == comparison.metric for value in others)
        # A trial that completed early has a metric, and may be before this one without a comparison of its own.
        unknown = comparison.of - len(known)
        assert better + 1 <= comparison.place <= better + equal + unknown + 1


def test_a_searcher_that_compares_nothing_has_no_comparisons() -> None:
    for name in ("single", "random", "grid", "optuna"):
        searcher = make(name)
        searcher.start()
        searcher.on_event(Validated(0, 1.0, 4.0))
        assert list(searcher.comparisons) == []


def test_comparisons_are_those_of_the_last_event_only() -> None:
    searcher = make("async_halving", max_trials=100, max_concurrent_trials=20)
    searcher.start()
    searcher.on_event(Validated(0, 1.0, 4.0))
    assert [comparison.number for comparison in searcher.comparisons] == [0]
    searcher.on_event(Validated(1, 2.0, 2.0))  # below the first rung: nothing is compared
    assert list(searcher.comparisons) == []
