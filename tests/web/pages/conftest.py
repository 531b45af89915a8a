"""A store with a search that has failures, a second search, and a browser that looks at them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import playwright.sync_api as api
import pytest

from tests.helpers.searches import Search
from tests.web.pages.browser import CHROMIUM, FLAGS, Ui, Visitor, running_ui, visiting, why_not

MODEL = Path(__file__).parent / "model"
CONFIG: dict[str, Any] = {
    "name": "adaptive <b>search</b>",
    "description": "which learning rate? <img src=x onerror=alert(1)>",
    "labels": ["demo", "<i>x</i>"],
    "entrypoint": "python3 train.py",
    "hyperparameters": {
        "lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1},
        "opt": {"type": "categorical", "vals": ["adam", "sgd", "lion"]},
        "layers": {"type": "int", "minval": 1, "maxval": 3},
    },
    "searcher": {
        "name": "adaptive_asha",
        "metric": "loss",
        "smaller_is_better": True,
        "time_metric": "batches",
        "max_time": 64,
        "max_trials": 16,
    },
    "max_restarts": 1,
    "reproducibility": {"experiment_seed": 7},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Search:
    """An adaptive search of 16 trials, of which those with opt = lion failed, and a grid of two."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    home = tmp_path_factory.mktemp("runs")
    environment = {"XDG_STATE_HOME": str(home / "state")}
    search = Search(home, MODEL, CONFIG, environment=environment)
    search.activate(search.create())
    grid = {
        **CONFIG,
        "name": "a grid",
        "hyperparameters": {"lr": {"type": "categorical", "vals": [0.01, 0.1]}, "opt": "adam", "layers": 2},
        "searcher": {"name": "grid", "metric": "loss", "max_length": {"batches": 64}},
    }
    other = Search(home, MODEL, grid, environment=environment)
    other.activate(other.create())
    search.det("model", "create", "digits <u>model</u>")
    return search


@pytest.fixture(scope="module")
def ui(runs: Search) -> Iterator[Ui]:
    """`det ui` on that store."""
    with running_ui(runs) as started:
        yield started


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[api.Browser]:
    """Chromium without a window."""
    home = str(tmp_path_factory.mktemp("browser"))  # for its caches
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with api.sync_playwright() as playwright:
        environment: dict[str, str | float | bool] = {**os.environ, "HOME": home, "XDG_CACHE_HOME": home}
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, env=environment)
        yield launched
        launched.close()


@pytest.fixture
def visitor(browser: api.Browser, ui: Ui) -> Iterator[Visitor]:
    """A browser profile that has logged in; an error on its console fails the test."""
    with visiting(browser, ui) as one:
        yield one
