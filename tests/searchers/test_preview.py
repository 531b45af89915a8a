"""Brackets, rungs and plans by the worked tables, and the warnings of a preview."""

from __future__ import annotations

from typing import Any

import pytest

from determined.searchers.halving.brackets import (
    Bracket,
    adaptive_brackets,
    integer_logarithm,
    next_bracket,
    thresholds,
)
from determined.searchers.preview import Preview, ValueRange, preview
from tests.searchers.methods import GRID, SPACE, config


def adaptive(trials: int, max_time: int, mode: str = "standard", **changes: Any) -> Preview:
    fields = {"max_trials": trials, "max_time": max_time, "mode": mode, "max_concurrent_trials": 16, **changes}
    return preview(config("adaptive_asha", **fields), SPACE)


# trials, mode, [(rungs, trials, at once)], {time: trials that end there}, units, percent of N * T
THOUSAND_BATCHES = [
    (16, "aggressive", [(3, 16, 16)], {62: 12, 250: 3, 1000: 1}, 2494, 15.6),
    (16, "standard", [(3, 12, 8), (2, 4, 8)], {62: 9, 250: 5, 1000: 2}, 3808, 23.8),
    (16, "conservative", [(3, 12, 6), (2, 3, 5), (1, 1, 5)], {62: 9, 250: 4, 1000: 3}, 4558, 28.5),
    (100, "aggressive", [(4, 100, 16)], {15: 75, 62: 19, 250: 5, 1000: 1}, 4553, 4.6),
    (100, "standard", [(4, 70, 6), (3, 22, 5), (2, 8, 5)], {15: 53, 62: 30, 250: 13, 1000: 4}, 9905, 9.9),
    (
        100,
        "conservative",
        [(4, 67, 4), (3, 21, 4), (2, 8, 4), (1, 4, 4)],
        {15: 51, 62: 28, 250: 13, 1000: 8},
        13751,
        13.8,
    ),
    (500, "aggressive", [(5, 500, 16)], {3: 375, 15: 94, 62: 24, 250: 6, 1000: 1}, 6523, 1.3),
    (
        500,
        "standard",
        [(5, 354, 6), (4, 110, 5), (3, 36, 5)],
        {3: 266, 15: 149, 62: 65, 250: 16, 1000: 4},
        15063,
        3.0,
    ),
    (
        500,
        "conservative",
        [(5, 341, 4), (4, 105, 3), (3, 35, 3), (2, 13, 3), (1, 6, 3)],
        {3: 256, 15: 143, 62: 63, 250: 25, 1000: 13},
        26069,
        5.2,
    ),
]
SIXTEEN_EPOCHS = [
    (16, "standard", [(3, 12, 8), (2, 4, 8)], {1: 9, 4: 5, 16: 2}, 61, 23.8),
    (100, "standard", [(3, 73, 8), (2, 27, 8)], {1: 55, 4: 35, 16: 10}, 355, 22.2),
    (500, "standard", [(3, 364, 8), (2, 136, 8)], {1: 273, 4: 171, 16: 56}, 1853, 23.2),
    (100, "aggressive", [(3, 100, 16)], {1: 75, 4: 19, 16: 6}, 247, 15.4),
    (100, "conservative", [(3, 64, 6), (2, 24, 5), (1, 12, 5)], {1: 48, 4: 30, 16: 22}, 520, 32.5),
]


@pytest.mark.parametrize(
    ("max_time", "trials", "mode", "brackets", "plan", "units", "percent"),
    [(1000, *row) for row in THOUSAND_BATCHES] + [(16, *row) for row in SIXTEEN_EPOCHS],
)
def test_worked_tables(
    max_time: int,
    trials: int,
    mode: str,
    brackets: list[tuple[int, int, int]],
    plan: dict[int, int],
    units: int,
    percent: float,
) -> None:
    found = adaptive(trials, max_time, mode)
    assert [(len(b.thresholds), b.trials, b.at_once) for b in found.brackets] == brackets
    assert dict(found.plan) == plan
    assert found.units == units
    assert found.share is not None
    assert round(found.share * 100, 1) == percent
    assert found.trials == sum(plan.values()) == trials


def test_thresholds_of_the_tables() -> None:
    assert thresholds(1000, 4, 5) == (3, 15, 62, 250, 1000)
    assert thresholds(1000, 4, 2) == (250, 1000)
    assert thresholds(16, 4, 3) == (1, 4, 16)
    assert thresholds(10, 4, 1) == (10,)
    assert thresholds(3, 4, 3) == (1, 1, 3)
    assert thresholds(100, 2.5, 3) == (16, 40, 100)


def test_ten_epochs() -> None:
    found = adaptive(100, 10)
    assert found.brackets == (Bracket((2, 10), 67, 8), Bracket((10,), 33, 8))
    assert found.share is not None
    assert round(found.share * 100) == 59


@pytest.mark.parametrize(("trials", "each"), [(16, 4), (100, 8), (500, 36)])
def test_without_a_bound_the_last_bracket_gives_the_places(trials: int, each: int) -> None:
    found = adaptive(trials, 1000, max_concurrent_trials=0)
    assert {bracket.at_once for bracket in found.brackets} == {each}
    assert found.at_once == each * len(found.brackets)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"trials": 10, "max_time": 100, "at_once": 2}, [(2, 7, 1), (1, 3, 1)]),
        (
            {"trials": 10, "max_time": 1000, "at_once": 5, "divisor": 3, "mode": "conservative"},
            [(3, 7, 2), (2, 2, 2), (1, 1, 1)],
        ),
        ({"trials": 100, "max_time": 1000, "bracket_rungs": (2, 4, 3)}, [(4, 70, 6), (3, 22, 5), (2, 8, 5)]),
        ({"trials": 50, "max_time": 1000, "bracket_rungs": (3, 2)}, [(3, 37, 8), (2, 13, 8)]),
        ({"trials": 1, "max_time": 1000, "bracket_rungs": (3, 2)}, [(3, 1, 16)]),
    ],
)
def test_known_brackets(fields: dict[str, Any], expected: list[tuple[int, int, int]]) -> None:
    defaults: dict[str, Any] = {"divisor": 4, "at_once": 16, "mode": "standard", "max_rungs": 5}
    found = adaptive_brackets(**{**defaults, **fields})
    assert [(len(b.thresholds), b.trials, b.at_once) for b in found] == expected


def test_exact_powers_lose_no_rung() -> None:
    assert integer_logarithm(243, 3) == 5
    assert integer_logarithm(242, 3) == 4
    assert integer_logarithm(1000, 10) == 3
    assert integer_logarithm(1, 4) == 0
    assert len(adaptive(243, 243, "aggressive", divisor=3, max_rungs=9).brackets[0].thresholds) == 6


def test_the_brackets_of_trials_in_order_of_creation() -> None:
    brackets = [Bracket((1, 4, 16), 12, 2), Bracket((4, 16), 4, 2)]
    created, order = [0, 0], ""
    for _ in range(24):
        bracket = next_bracket(brackets, created)
        created[bracket] += 1
        order += str(bracket)
    assert order[:4] == "0011"
    assert (order[:16].count("0"), order[:16].count("1")) == (12, 4)
    assert (order[16:].count("0"), order[16:].count("1")) == (6, 2)  # replacements and extensions: in proportion


def test_other_methods() -> None:
    single, grid = preview(config("single"), SPACE), preview(config("grid"), GRID)
    assert (single.trials, single.at_once, single.units, single.plan) == (1, 1, None, ())
    assert (grid.trials, grid.at_once) == (12, 5)
    pbt = preview(config("pbt", replace_function={"truncate_fraction": 0.34}), SPACE)
    assert (pbt.trials, pbt.at_once, pbt.units, pbt.time_metric) == (6 + 2 * 3, 6, 6 * 4 * 16, "batches")
    optuna = preview(config("optuna, halving"), SPACE)
    assert [bracket.thresholds for bracket in optuna.brackets] == [(16, 64)]
    assert preview(config("optuna"), SPACE).brackets == ()


def test_ranges_of_logarithmic_values() -> None:
    found = preview(config("single"), SPACE)
    assert found.ranges == (ValueRange("lr", pytest.approx(1e-4), 1.0),)  # type: ignore[arg-type]
    assert found.warnings == ()


def test_bounds_that_look_like_values_are_warned_of() -> None:
    space = {"opt": {"lr": {"type": "log", "base": 10, "minval": 1e-4, "maxval": 1.0}}}
    (warning,) = preview(config("single"), space).warnings
    assert "hyperparameters.opt.lr" in warning
    assert "between 1.00023 and 10" in warning
    assert "{type: loguniform, min: 0.0001, max: 1}" in warning
    fine = {"lr": {"type": "loguniform", "min": 2, "max": 9}}
    assert preview(config("single"), fine).warnings == ()


@pytest.mark.parametrize(
    ("method", "changes", "words"),
    [
        ("adaptive_asha", {"max_time": 10}, "10 batches gives 2 rungs: trials are compared only once"),
        ("adaptive_asha", {"max_time": 3}, "3 batches gives one rung: no trial is stopped early"),
        ("adaptive_asha", {"max_trials": 3}, "halving begins at 4 trials"),
        ("async_halving", {"max_time": 3}, "rungs 1, 1, 3 are the same"),
    ],
)
def test_coarse_rungs_are_warned_of(method: str, changes: dict[str, Any], words: str) -> None:
    assert any(words in warning for warning in preview(config(method, **changes), SPACE).warnings)


def test_rare_validations_and_huge_grids_are_warned_of() -> None:
    fields = config("async_halving")
    (warning,) = preview(fields, SPACE, validation_period=10).warnings
    assert "validates every 10 batches" in warning
    assert preview(fields, SPACE, validation_period=4).warnings == ()
    large = {"a": {"type": "int", "minval": 0, "maxval": 5000, "count": 5000}}
    assert "5,000 points" in preview(config("grid"), large).warnings[0]


def test_pausing_is_suggested_where_slots_are_few() -> None:
    assert preview(config("adaptive_asha"), SPACE).suggestions == ()
    assert preview(config("adaptive_asha"), SPACE, slots=16).suggestions == ()
    assert preview(config("promotion"), SPACE, slots=2).suggestions == ()
    assert preview(config("random"), SPACE, slots=1).suggestions == ()
    (line,) = preview(config("adaptive_asha"), SPACE, slots=2).suggestions
    assert "stop_once: false" in line
