"""Migrates retired search methods to those that replaced them, and training lengths to times."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

from determined.config.blocks.searcher import searcher_model
from determined.config.length import Length, read_length
from determined.config.metric_values import is_finite
from determined.config.reading.error_messages import got
from determined.errors import Mistake

# The migrated searcher, a description of each change, and the mistakes found.
Result = tuple[dict[str, Any], list[str], list[Mistake]]

_LONGEST = 2**63 - 1  # the largest integer that the store and JSON parsers of other languages hold
_MOST_RUNGS = 64  # bounds the loop in `_useful_rungs` for a divisor close to 1
# The defaults of these searchers in the releases that had them.
_DEFAULTS = {"divisor": 4, "max_rungs": 5, "num_rungs": 5, "mode": "standard"}


def retired_methods(searcher: dict[str, Any]) -> Result:
    """Migrate `adaptive_simple`, `adaptive`, `sync_halving`, and the `async_halving` of 0.12.9, which had a budget."""
    name = searcher.get("name")
    if name == "adaptive_simple":
        return {**searcher, "name": "adaptive_asha"}, ["searcher.name: adaptive_simple is adaptive_asha"], []
    if name == "adaptive":
        return _by_budget(searcher, "adaptive_asha")
    if name == "sync_halving" or (name == "async_halving" and "budget" in searcher):
        return _by_budget(searcher, "async_halving")
    return searcher, [], []


def lengths_as_times(searcher: dict[str, Any]) -> Result:
    """Replace `max_length` by `max_time` and `time_metric`.

    Releases 0.13 to 0.37 gave the training length with its unit; now the unit is the name of the metric that counts it.
    """
    model = searcher_model(searcher.get("name"))
    if model is None:
        return searcher, [], []
    # Given fields take precedence over derived ones.
    searcher = {**model.derived(searcher), **searcher}
    time = {"max_time", "time_metric"}
    if not time <= model.model_fields.keys() or time & searcher.keys() or "max_length" not in searcher:
        return searcher, [], []
    given = read_length(searcher["max_length"])
    if given is None:  # validation rejects it; otherwise the other two would also be reported as missing
        return {**searcher, "time_metric": "batches", "max_time": 1}, [], []
    # A length of 0 is rejected by validation; 1 keeps the derived fields valid.
    metric, longest = given.unit or "batches", max(1, given.value)
    change = f"searcher.max_length: {_shown(given)} is time_metric: {metric} and max_time: {longest}"
    return {**searcher, "time_metric": metric, "max_time": longest}, [change], []


def _by_budget(searcher: dict[str, Any], name: str) -> Result:
    """Migrate a search with a total training budget to one with the number of trials that the budget allows."""
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
        # A placeholder, otherwise max_trials would also be reported as missing.
        return {**migrated, "max_trials": 1}, changes, mistakes
    rungs = _brackets(searcher, whole.value, name)
    if rungs is None:
        return {**migrated, "max_trials": 1}, changes, []  # validation reports the wrong divisor, mode or rungs
    divisor = float(searcher.get("divisor", _DEFAULTS["divisor"]))
    # Each bracket gets the same share of the budget.
    trials = sum(_affordable(budget.value / len(rungs), whole.value, count, divisor) for count in rungs)
    changes.append(f"searcher.budget: {_shown(budget)} is max_trials: {trials}, computed from what they would train")
    return {**migrated, "max_trials": trials}, changes, []


def _budget_mistakes(searcher: dict[str, Any], budget: Length | None, whole: Length | None) -> list[Mistake]:
    """Return the mistakes about a budget."""
    if "budget" not in searcher:
        return [Mistake("searcher.budget", None, "missing: how long all trials train together, or max_trials instead")]
    if budget is None or budget.value > _LONGEST:
        return [_expected("budget", "a length such as {batches: 10000}", searcher["budget"])]
    if not _is_training(whole):
        return []  # reported by the validation
    if budget.unit != whole.unit:
        return [_expected("budget", f"the unit of max_length, which is {whole.unit}", budget.unit)]
    if budget.value <= whole.value:
        return [_expected("budget", f"more than max_length, which is {whole.value}", budget.value)]
    return []


def _expected(field: str, expected: str, value: Any) -> Mistake:
    return Mistake(f"searcher.{field}", None, f"expected {expected}, got {got(('searcher', field), value)}")


def _brackets(searcher: dict[str, Any], length: int, name: str) -> list[int] | None:
    """Return the numbers of rungs of the brackets; None if the settings are invalid."""
    values = {**_DEFAULTS, **searcher}
    divisor, mode, given = values["divisor"], values["mode"], values.get("bracket_rungs") or []
    most = values["num_rungs" if name == "async_halving" else "max_rungs"]
    if not is_finite(divisor) or divisor <= 1 or not _is_rungs(most):
        return None
    most = min(most, _useful_rungs(length, divisor))
    if name == "async_halving":
        return [most]
    if isinstance(given, list) and given:
        return [min(rungs, most) for rungs in given] if all(map(_is_rungs, given)) else None
    if mode not in ("aggressive", "standard", "conservative"):
        return None
    # The same numbers of brackets as `adaptive_asha` uses.
    fewest = {"aggressive": most, "standard": (most - 1) // 2 + 1, "conservative": 1}[mode]
    return list(range(fewest, most + 1))


def _useful_rungs(length: int, divisor: float) -> int:
    """Return the largest number of rungs for which the first one is at least one unit long."""
    rungs, first = 1, float(length)
    while first / divisor >= 1 and rungs < _MOST_RUNGS:
        rungs, first = rungs + 1, first / divisor
    return rungs


def _affordable(budget: float, length: int, rungs: int, divisor: float) -> int:
    """Return the number of trials that a bracket can start with if one in `divisor` continues at each rung."""
    # The average training of a trial, as a share of the complete length.
    share = divisor ** (1 - rungs) * (1 + (rungs - 1) * (1 - 1 / divisor))
    return max(1, math.floor(budget / (length * share)))


def _is_training(length: Length | None) -> TypeGuard[Length]:
    return length is not None and 1 <= length.value <= _LONGEST


def _is_rungs(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _shown(length: Length) -> str:
    return str(length.value) if length.unit is None else f"{{{length.unit}: {length.value}}}"
