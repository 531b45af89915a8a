"""Find the hyperparameters that an experiment searches over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from determined.config.flattening import flat
from determined.config.stored import StoredConfig

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment, Trial


def ranges(experiment: Experiment) -> list[tuple[str, Any]]:
    """Return each hyperparameter of the configuration with its range, or its single value."""
    hyperparameters = StoredConfig(experiment.config).hyperparameters
    return list(_spaces(hyperparameters)) if isinstance(hyperparameters, dict) else []


def searched_names(experiment: Experiment, trials: Sequence[Trial]) -> list[str]:
    """Return the names, with dots for nesting, of the hyperparameters that are searched.

    A standalone run has no ranges: there, these are the hyperparameters whose values differ between trials.
    """
    names = [name for name, space in ranges(experiment) if isinstance(space, dict)]
    if names or not experiment.is_standalone:
        return names
    values: dict[str, set[str]] = {}
    for trial in trials:
        for name, value in flat(trial.effective_hparams).items():
            # As text, because values may be lists, which are not hashable.
            values.setdefault(name, set()).add(json.dumps(value, default=repr))
    return [name for name, found in values.items() if len(found) > 1]


def _spaces(hyperparameters: dict[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    """Yield each hyperparameter with its range or value, nested ones with dots in their names."""
    for name, value in hyperparameters.items():
        if isinstance(value, dict) and "type" in value:
            yield f"{before}{name}", value.get("val") if value["type"] == "const" else value
        elif isinstance(value, dict) and value:
            yield from _spaces(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
