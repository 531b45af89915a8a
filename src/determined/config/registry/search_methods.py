"""The registry of search methods, with the properties that code outside of a method may ask for."""

from __future__ import annotations

from typing import Any, NamedTuple


class SearchMethod(NamedTuple):
    """A search method. The defaults describe one that compares its trials, such as successive halving."""

    implementation: str  # `module:class`; the class is a `determined.searchers.method.Method`
    one_trial: bool = False  # the search is a single trial, so its hyperparameters can change when it is continued
    compares_trials: bool = True  # results influence other trials, so ended trials cannot be resumed or repeated
    copies_trials: bool = False  # trials start from checkpoints of others, so every trial needs one at its goal


SEARCH_METHODS = {
    "single": SearchMethod("determined.searchers.methods.single:SingleSearch", one_trial=True, compares_trials=False),
    "random": SearchMethod("determined.searchers.methods.random:RandomSearch", compares_trials=False),
    "grid": SearchMethod("determined.searchers.methods.grid:GridSearch", compares_trials=False),
    "async_halving": SearchMethod("determined.searchers.methods.async_halving:AsyncHalving"),
    "adaptive_asha": SearchMethod("determined.searchers.methods.adaptive_asha:AdaptiveAsha"),
    "pbt": SearchMethod("determined.searchers.methods.pbt:PopulationSearch", copies_trials=True),
    "optuna": SearchMethod("determined.searchers.methods.optuna:OptunaSearch"),
}

# Of a name that is not registered, as in the configuration of a standalone run, nothing is known.
_UNKNOWN = SearchMethod("")


def one_trial_method() -> str:
    """Return the name of the method whose search is a single trial."""
    return next(name for name, method in SEARCH_METHODS.items() if method.one_trial)


def search_method(name: Any) -> SearchMethod:
    """Return the properties of a search method; the defaults for a name that is not registered."""
    return SEARCH_METHODS.get(name, _UNKNOWN) if isinstance(name, str) else _UNKNOWN
