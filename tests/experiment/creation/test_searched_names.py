"""Which hyperparameters a search varies: columns, comparisons and commands that run a trial again name the same."""

from __future__ import annotations

from typing import Any

import pytest

from determined.experiment.creation.search_check import searched_paths
from determined.experiment.searched_names import hyperparameters_of, searched_names
from determined.store.store import Store
from tests.store.conftest import place, postgres, postgres_stores, sqlite_stores, store
from tests.store.experiments import with_trials

__all__ = ["place", "postgres", "postgres_stores", "sqlite_stores", "store"]

SPACE: dict[str, Any] = {
    "constant_map": {"type": "const", "val": {"layers": [1, 2]}},
    "empty": {},
    "one_choice": {"type": "categorical", "vals": ["sgd"]},
    "plain": 3,
    "optimizer": {"lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1}, "name": "adam"},
    "depth": {"type": "int", "minval": 1, "maxval": 4},
}


def test_only_hyperparameters_with_several_values_are_searched(store: Store) -> None:
    lease, _ = with_trials(store, 1, config={"searcher": {"name": "random"}, "hyperparameters": SPACE})
    experiment = store.experiments.get(lease.experiment_id)
    names = searched_names(experiment, store.experiments.trials(experiment.id))
    assert names == ["optimizer.lr", "depth"]
    assert sorted(names) == [".".join(path) for path in searched_paths(SPACE)]
    written = {one.name: one.written for one in hyperparameters_of(experiment.config)}
    assert written["depth"] == SPACE["depth"]
    assert (written["constant_map"], written["empty"], written["plain"]) == ({"layers": [1, 2]}, {}, 3)


@pytest.mark.parametrize("space", [{"lr": {"type": "guess"}}, {"lr": {"type": "int"}}, ["lr"], "lr", None])
def test_a_space_that_cannot_be_read_has_no_hyperparameters(space: Any) -> None:
    assert hyperparameters_of({"hyperparameters": space}) == []
