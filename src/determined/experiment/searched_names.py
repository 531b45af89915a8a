"""Find the hyperparameters that an experiment searches over."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from determined.config.flattening import flat
from determined.config.hyperparameters import Const, Leaf, is_fixed, leaves
from determined.config.stored import StoredConfig
from determined.errors import InvalidConfigurationException

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment, Trial


class Hyperparameter(NamedTuple):
    """A hyperparameter of a configuration: its name, with dots for nesting, and its range, typed and as written."""

    name: str
    leaf: Leaf
    written: Any  # of a constant its value

    @property
    def is_searched(self) -> bool:
        """Whether a search varies it."""
        return not is_fixed(self.leaf)


def hyperparameters_of(config: Mapping[str, Any]) -> list[Hyperparameter]:
    """Return the hyperparameters of a stored configuration in the order in which they are written.

    None if they cannot be read: the configuration of a standalone run may be anything.
    """
    space = StoredConfig(config).hyperparameters
    try:
        return [
            Hyperparameter(".".join(path), leaf, _written(space, path, leaf))
            for path, leaf in leaves(space, as_written=True)
        ]
    except InvalidConfigurationException:
        return []


def _written(space: dict[str, Any], path: Sequence[str], leaf: Leaf) -> Any:
    """Return the entry of a space at a path as it is written, of a constant its value."""
    return leaf.value if isinstance(leaf, Const) else functools.reduce(lambda inner, name: inner[name], path, space)


def searched_names(experiment: Experiment, trials: Sequence[Trial]) -> list[str]:
    """Return the names, with dots for nesting, of the hyperparameters that are searched.

    A standalone run has no ranges: there, these are the hyperparameters whose values differ between trials.
    """
    names = [one.name for one in hyperparameters_of(experiment.config) if one.is_searched]
    if names or not experiment.is_standalone:
        return names
    values: dict[str, set[str]] = {}
    for trial in trials:
        for name, value in flat(trial.effective_hparams).items():
            # As text, because values may be lists, which are not hashable.
            values.setdefault(name, set()).add(json.dumps(value, default=repr))
    return [name for name, found in values.items() if len(found) > 1]
