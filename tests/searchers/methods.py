"""Every search method by name, as a configuration, and simulated trials for it."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from typing import Any

from determined.config.blocks.searcher import searcher_models
from determined.searchers import journal
from determined.searchers.base import Action, Create, Event, ExitReason, Searcher
from determined.searchers.build import build
from determined.searchers.simulate import Behaviour

SPACE: dict[str, Any] = {
    "lr": {"type": "log", "base": 10, "minval": -4, "maxval": 0},
    "layers": {"type": "int", "minval": 1, "maxval": 8},
    "kind": {"type": "categorical", "vals": ["a", [1, 2], None]},
    "nested": {"drop": {"type": "double", "minval": 0.0, "maxval": 1.0}, "size": 3},
}
GRID = {"lr": {"type": "log", "base": 10, "minval": -3, "maxval": 0, "count": 4}, "kind": SPACE["kind"]}

TIMED = {"max_time": 64, "time_metric": "batches"}
METHODS: dict[str, dict[str, Any]] = {
    "single": {"name": "single"},
    "random": {"name": "random", "max_trials": 12, "max_concurrent_trials": 4},
    "grid": {"name": "grid", "max_concurrent_trials": 5},
    "async_halving": {"name": "async_halving", "num_rungs": 3, "max_trials": 14, "max_concurrent_trials": 5, **TIMED},
    "async_halving, largest": {
        "name": "async_halving",
        "num_rungs": 4,
        "divisor": 2,
        "max_trials": 14,
        "smaller_is_better": False,
        "max_concurrent_trials": 0,
        **TIMED,
    },
    "adaptive_asha": {"name": "adaptive_asha", "max_trials": 20, "max_concurrent_trials": 6, **TIMED},
    "adaptive_asha, conservative": {
        "name": "adaptive_asha",
        "max_trials": 20,
        "max_concurrent_trials": 0,
        "mode": "conservative",
        "divisor": 3,
        **TIMED,
    },
    "promotion": {"name": "adaptive_asha", "max_trials": 20, "max_concurrent_trials": 6, "stop_once": False, **TIMED},
    "promotion, one bracket": {
        "name": "async_halving",
        "num_rungs": 4,
        "divisor": 2,
        "max_trials": 17,
        "max_concurrent_trials": 3,
        "stop_once": False,
        **TIMED,
    },
    "pbt": {"name": "pbt", "population_size": 6, "num_rounds": 4, "length_per_round": 16, "time_metric": "batches"},
    "optuna": {"name": "optuna", "max_trials": 12, "max_concurrent_trials": 3, "sampler": "tpe"},
    "optuna, halving": {"name": "optuna", "max_trials": 12, "max_concurrent_trials": 3, **TIMED},
}


def config(name: str, **changes: Any) -> Any:
    """Return the configuration of a method."""
    fields = {"metric": "loss", **METHODS[name], **changes}
    return MODELS[fields["name"]](**fields)


MODELS = searcher_models()


def make(name: str, seed: int = 0, **changes: Any) -> Searcher:
    return build(config(name, **changes), GRID if name == "grid" else SPACE, seed)


def metric_of(create: Create) -> float:
    """Return a simulated loss that depends on the hyperparameters alone."""
    nested = create.hparams.get("nested", {}).get("drop", 0.5)
    return (math.log10(create.hparams["lr"]) + 2) ** 2 + float(nested)


REASONS: tuple[ExitReason, ...] = ("errored", "canceled", "completed", "invalid_hp")


def trouble(create: Create, seed: int, *, length: float = 64.0, late_refusals: bool = False) -> Behaviour:
    """Return a trial that may fail, raise InvalidHP, end early or report no numbers; its seed determines all but its
    speed.
    """
    chance = random.Random(create.seed + seed)
    level, kind = metric_of(create), chance.random()
    speed = random.random() ** 4 * 10 + 0.01
    if kind < 0.1:
        return Behaviour(lambda time: math.nan, speed, ends_at=length + 1)
    if kind < 0.3:
        reason = chance.choice(REASONS)
        at = 0.0 if reason == "invalid_hp" and not late_refusals else chance.choice([0.0, 3.0, 9.0, 40.0])
        return Behaviour(lambda time: level + 1 / time, speed, ends_at=at, ends_as=reason)
    return Behaviour(lambda time: level + 1 / time, speed, ends_at=length + 1, validates_every=chance.choice([11, 16]))


def copied(searcher: Searcher, fresh: Callable[[], Searcher]) -> Searcher:
    """Another searcher with the same state, taken through JSON as the store does."""
    other = fresh()
    other.restore(json.loads(json.dumps(searcher.state(), allow_nan=False)))
    return other


def plain(actions: list[Action]) -> list[dict[str, Any]]:
    return [journal.action_to_plain(action) for action in actions]


def through_journal(event: Event) -> Event:
    return journal.event_from_plain(json.loads(json.dumps(journal.event_to_plain(event), allow_nan=False)))
