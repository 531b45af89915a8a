"""Search methods that were retired, as the methods that took their place; lengths as times."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

from determined.config import kinds
from determined.config.length import Length, read_length
from determined.config.mistakes import got
from determined.errors import Mistake

# The searcher of today, what became of what, and what could not be read.
Result = tuple[dict[str, Any], list[str], list[Mistake]]

_TIMED = ("async_halving", "adaptive_asha", "optuna")
_LONGEST = 2**63 - 1
_MOST_RUNGS = 64
_DEFAULTS = {"divisor": 4, "max_rungs": 5, "num_rungs": 5, "mode": "standard"}


def retired_methods(searcher: dict[str, Any]) -> Result:
    """`adaptive_simple`, `adaptive` and `sync_halving`, and the `async_halving` of 0.12.9, which had a budget."""
    name = searcher.get("name")
    if name == "adaptive_simple":
        return {**searcher, "name": "adaptive_asha"}, ["searcher.name: adaptive_simple is adaptive_asha"], []
    if name == "adaptive":
        return _by_budget(searcher, "adaptive_asha")
    if name == "sync_halving" or (name == "async_halving" and "budget" in searcher):
        return _by_budget(searcher, "async_halving")
    return searcher, [], []


def lengths_as_times(searcher: dict[str, Any]) -> Result:
    """0.13 to 0.37 gave the length of a training with its unit; now the unit names the metric that counts it."""
    name = searcher.get("name")
    given = read_length(searcher.get("length_per_round" if name == "pbt" else "max_length"))
    if name == "pbt" and given is not None:
        return {"time_metric": given.unit or "batches", **_all_rounds(searcher, given), **searcher}, [], []
    if (
        name not in _TIMED
        or not searcher.keys().isdisjoint({"max_time", "time_metric"})
        or "max_length" not in searcher
    ):
        return searcher, [], []
    if given is None:  # the model refuses it; that the others are missing is not a second mistake
        return {**searcher, "time_metric": "batches", "max_time": 1}, [], []
    metric, time = given.unit or "batches", max(1, given.value)
    change = f"searcher.max_length: {_shown(given)} is time_metric: {metric} and max_time: {time}"
    return {**searcher, "time_metric": metric, "max_time": time}, [change], []


def _all_rounds(searcher: dict[str, Any], length: Length) -> dict[str, Any]:
    """How long a trial of a population trains that is never replaced: its program reads that as its max_length."""
    rounds = searcher.get("num_rounds")
    if not isinstance(rounds, int) or rounds < 1 or length.value < 1:
        return {}  # the model says so
    return {"max_length": Length(rounds * length.value, length.unit).plain()}


def _by_budget(searcher: dict[str, Any], name: str) -> Result:
    """A search that was given so many units of training now is given as many trials as these units pay for."""
    old = searcher["name"]
    migrated = {key: value for key, value in searcher.items() if key not in ("budget", "train_stragglers")}
    migrated["name"] = name
    changes = [f"searcher.name: {old} is {name}"]
    if "train_stragglers" in searcher:
        changes.append("searcher.train_stragglers is left out: no trial waits for another")
        if not isinstance(searcher["train_stragglers"], bool):
            return migrated, changes, [_expected("train_stragglers", "true or false", searcher["train_stragglers"])]
    if "max_trials" in searcher:
        return migrated, changes, []
    budget, whole = read_length(searcher.get("budget")), read_length(searcher.get("max_length"))
    mistakes = _budget_mistakes(searcher, budget, whole)
    if mistakes or budget is None or not _is_training(whole):
        return {**migrated, "max_trials": 1}, changes, mistakes  # so that max_trials is not called missing as well
    rungs = _brackets(searcher, whole.value, name)
    if rungs is None:
        return {**migrated, "max_trials": 1}, changes, []  # divisor, mode or rungs are wrong: the model says so
    divisor = float(searcher.get("divisor", _DEFAULTS["divisor"]))
    trials = sum(_affordable(budget.value / len(rungs), whole.value, count, divisor) for count in rungs)
    changes.append(f"searcher.budget: {_shown(budget)} is max_trials: {trials}, computed from what they would train")
    return {**migrated, "max_trials": trials}, changes, []


def _budget_mistakes(searcher: dict[str, Any], budget: Length | None, whole: Length | None) -> list[Mistake]:
    if "budget" not in searcher:
        return [Mistake("searcher.budget", None, "missing: how long all trials train together, or max_trials instead")]
    if budget is None or budget.value > _LONGEST:
        return [_expected("budget", "a length such as {batches: 10000}", searcher["budget"])]
    if not _is_training(whole):
        return []  # the model says so
    if budget.unit != whole.unit:
        return [_expected("budget", f"the unit of max_length, which is {whole.unit}", budget.unit)]
    if budget.value <= whole.value:
        return [_expected("budget", f"more than max_length, which is {whole.value}", budget.value)]
    return []


def _expected(field: str, expected: str, value: Any) -> Mistake:
    return Mistake(f"searcher.{field}", None, f"expected {expected}, got {got(('searcher', field), value)}")


def _brackets(searcher: dict[str, Any], length: int, name: str) -> list[int] | None:
    """The numbers of rungs of the halvings that ran side by side."""
    values = {**_DEFAULTS, **searcher}
    divisor, mode, given = values["divisor"], values["mode"], values.get("bracket_rungs") or []
    most = values["num_rungs" if name == "async_halving" else "max_rungs"]
    if not kinds.is_number(divisor) or divisor <= 1 or not _is_rungs(most):
        return None
    most = min(most, _useful_rungs(length, divisor))
    if name == "async_halving":
        return [most]
    if isinstance(given, list) and given:
        return [min(rungs, most) for rungs in given] if all(map(_is_rungs, given)) else None
    if mode not in ("aggressive", "standard", "conservative"):
        return None
    fewest = {"aggressive": most, "standard": (most - 1) // 2 + 1, "conservative": 1}[mode]
    return list(range(fewest, most + 1))


def _useful_rungs(length: int, divisor: float) -> int:
    """The first rung is at least one unit long."""
    rungs, first = 1, float(length)
    while first / divisor >= 1 and rungs < _MOST_RUNGS:
        rungs, first = rungs + 1, first / divisor
    return rungs


def _affordable(budget: float, length: int, rungs: int, divisor: float) -> int:
    """How many trials a halving can begin: of every rung's trials one in `divisor` goes on to the next."""
    share = divisor ** (1 - rungs) * (1 + (rungs - 1) * (1 - 1 / divisor))
    return max(1, math.floor(budget / (length * share)))


def _is_training(length: Length | None) -> TypeGuard[Length]:
    return length is not None and 1 <= length.value <= _LONGEST


def _is_rungs(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _shown(length: Length) -> str:
    return str(length.value) if length.unit is None else f"{{{length.unit}: {length.value}}}"
