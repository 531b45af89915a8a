"""Hyperparameters proposed by an Optuna sampler, which learns from the results of earlier trials.

Optuna's study is in memory only. A snapshot contains the record of all calls to it; to resume after a crash, they are
replayed on a new study.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from determined.config.hyperparameters import Choice, Const, IntegerRange, Leaf, LogRange, leaves, nest
from determined.config.random_stream import RandomStream
from determined.errors import InvalidConfigurationException
from determined.optional import require
from determined.searchers.sources import Draw, Outcome, with_identity

# Samplers that cannot be chosen: base classes, those that wrap another sampler, and those that need a grid, for which
# there is the grid searcher.
_NOT_BY_NAME = {"base", "basega", "bruteforce", "grid", "partialfixed"}


class OptunaSource:
    """A source of trials that asks an Optuna sampler for hyperparameters."""

    def __init__(
        self, space: dict[str, Any], seed: int, *, sampler: str, options: dict[str, Any], smaller_is_better: bool
    ) -> None:
        self._optuna = require("optuna", extra="optuna", purpose="the searcher optuna")
        # As JSON, because a dot in a name would make joined paths ambiguous.
        self._leaves = [(path, json.dumps(path), found) for path, found in leaves(space)]
        self._distributions = {
            name: _distribution(self._optuna, found) for _, name, found in self._leaves if not isinstance(found, Const)
        }
        self._seed, self._sampler, self._options = seed, sampler, options
        self._direction = "minimize" if smaller_is_better else "maximize"
        self._begin()

    def _begin(self) -> None:
        """Create a new study with an empty record."""
        self._stream = RandomStream(self._seed)
        self._record: list[list[Any]] = []
        self._asked: dict[int, Any] = {}
        with _without_optuna_logs(self._optuna):
            sampler = _build_sampler(self._optuna, self._sampler, self._options, self._seed)
            self._study = self._optuna.create_study(sampler=sampler, direction=self._direction)
        # TPE takes pruned trials into account. Other samplers ignore them, and under halving most trials are pruned, so
        # their last value is reported as if it were final.
        self._ranks_stopped_trials = isinstance(sampler, self._optuna.samplers.TPESampler)

    def draw(self, number: int) -> Draw:
        with _without_optuna_logs(self._optuna):
            trial = self._asked[number] = self._study.ask(self._distributions)
        self._record.append(["ask", number, trial.params])
        values = [(path, _value(found, trial.params.get(name))) for path, name, found in self._leaves]
        return with_identity(nest(values), self._stream)

    def learn(self, number: int, outcome: Outcome) -> None:
        # In the order of the calls: a replay makes the same calls on a new study.
        self._record.append(["tell", number, vars(outcome)])
        trial, states = self._asked.pop(number), self._optuna.trial.TrialState
        with _without_optuna_logs(self._optuna):
            if outcome.failed or outcome.value is None:
                self._study.tell(trial, state=states.FAIL)
            elif outcome.reached_the_end or not self._ranks_stopped_trials:
                self._study.tell(trial, outcome.value)
            else:
                trial.report(outcome.value, step=int(outcome.time or 0))
                self._study.tell(trial, state=states.PRUNED)

    def state(self) -> dict[str, Any]:
        return {"optuna": self._optuna.__version__, "record": list(self._record)}

    def restore(self, state: dict[str, Any]) -> None:
        self._begin()
        for kind, number, content in state["record"]:
            if kind == "tell":
                self.learn(number, Outcome(**content))
                continue
            self.draw(number)
            # Compared at every step: a sampler that proposes something else would silently continue another search.
            if self._record[-1][2] != content:
                raise InvalidConfigurationException(
                    message=f"the search cannot continue: it was started with Optuna {state['optuna']}, and Optuna "
                    f"{self._optuna.__version__} proposes other values for trial {number}; install Optuna "
                    f"{state['optuna']}"
                )


def _distribution(optuna: ModuleType, found: Leaf) -> Any:
    """Return the Optuna distribution of a hyperparameter."""
    if isinstance(found, Choice):  # by index, because Optuna does not accept lists and dicts as choices
        return optuna.distributions.CategoricalDistribution(range(len(found.values)))
    if isinstance(found, IntegerRange):
        return optuna.distributions.IntDistribution(found.low, found.high)
    if isinstance(found, LogRange):
        return optuna.distributions.FloatDistribution(*found.bounds(), log=True)
    assert not isinstance(found, Const)
    return optuna.distributions.FloatDistribution(found.low, found.high)


def _value(found: Leaf, proposed: Any) -> Any:
    """Return the hyperparameter value for the value that Optuna proposed."""
    if isinstance(found, Const):
        return found.value
    return found.values[proposed] if isinstance(found, Choice) else proposed


def _build_sampler(optuna: ModuleType, name: str, options: dict[str, Any], seed: int) -> Any:
    """Return the Optuna sampler with this name. Raise if the name or an option is unknown."""
    samplers = {
        key: kind
        for attribute, kind in vars(optuna.samplers).items()
        if attribute.endswith("Sampler") and (key := _short(attribute)) not in _NOT_BY_NAME
    }
    kind = samplers.get(_short(name))
    if kind is None:
        raise InvalidConfigurationException(
            message=f"searcher.sampler: expected one of {', '.join(sorted(samplers))}, got {name!r}"
        )
    parameters = inspect.signature(kind).parameters
    # Samplers pass the seed to NumPy, which accepts 32 bits.
    ours: dict[str, Any] = {"seed": seed & 0xFFFFFFFF} if "seed" in parameters else {}
    if "warn_independent_sampling" in parameters and parameters["warn_independent_sampling"].default is True:
        ours["warn_independent_sampling"] = False  # would warn at every trial that has independently sampled values
    try:
        return kind(**{**ours, **options})
    except (TypeError, ValueError) as error:
        raise InvalidConfigurationException(
            message=f"searcher.sampler_options: {kind.__name__} of Optuna does not take them: {error}"
        ) from error


def _short(name: str) -> str:
    """Return a sampler name in lower case without separators and the suffix "sampler"."""
    return name.lower().replace("_", "").replace("-", "").removesuffix("sampler")


@contextmanager
def _without_optuna_logs(optuna: ModuleType) -> Iterator[None]:
    """Suppress Optuna's log line for each study and its warnings about experimental samplers."""
    # Restored afterwards, because the program may use Optuna itself.
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
