"""A store with a search that has failures, a second search, a queue, and a browser.

Each worker creates them once for the whole package: no test may depend on what another test changes there.
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import playwright.sync_api as api
import pytest

from determined.store.experiment_changes import Change, ExperimentChange, TrialChange
from determined.store.process import this_user
from determined.store.rows import MetricRow
from determined.store.store import Store
from determined.store.substores.queue import NewEntry
from tests.helpers.searches import Search
from tests.store.experiments import with_trials
from tests.web.pages.browser import Ui, Visitor, launch, running_ui, visiting, why_not

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


@pytest.fixture(scope="package")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Search:
    """Create an adaptive search of 16 trials, in which those with opt = lion failed, a grid of two, and a waiting
    experiment.

    The grid has other code.
    """
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
    other = Search(home, _changed_model(home / "changed model"), grid, environment=environment)
    other.activate(other.create())
    waiting = Search(home, MODEL, {**CONFIG, "name": "a <b>later</b> search"}, environment=environment).create()
    search.det("model", "create", "digits <u>model</u>")
    with search.opened() as store:
        # Without a daemon, as after a restart of the machine: nothing starts during the tests.
        store.queue.add(NewEntry(waiting, socket.gethostname(), this_user(), priority=7, slots=1))
        store.write(samples(store, 3, "cpu", "load"))
    return search


def _changed_model(directory: Path) -> Path:
    """Return a copy of the model with a changed line and a new file, whose text is hostile."""
    shutil.copytree(MODEL, directory)
    program = directory / "train.py"
    program.write_text(program.read_text().replace("LENGTH = 64\n", "LENGTH = 32 + 32\n"))
    (directory / "notes.txt").write_text("<script>document.title='hacked'</script>\n\u202eright to left\n")
    return directory


def samples(store: Store, trial_id: int, group: str, name: str) -> list[MetricRow]:
    """Return a profile of a trial, as the profiler reports it: values of a host without a step, one each second."""
    attempt = store.attempts(trial_id)[-1]
    bodies = [json.dumps({"host": {name: value}}) for value in (10, 35, 20, 80)]
    return [
        MetricRow(trial_id, attempt.number, 10_000 + second, group, None, body, attempt.started + second)
        for second, body in enumerate(bodies)
    ]


@pytest.fixture(scope="package")
def ui(runs: Search) -> Iterator[Ui]:
    """Run `det ui` on that store."""
    with running_ui(runs) as started:
        yield started


@pytest.fixture(scope="package")
def few(tmp_path_factory: pytest.TempPathFactory) -> Search:
    """Return two experiments that have ended, with four trials each, which were written without training."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    home = tmp_path_factory.mktemp("few")
    environment = {"XDG_STATE_HOME": str(home / "state")}
    search = Search(home, MODEL, CONFIG, store=str(home / "store.sqlite"), environment=environment)
    with search.opened() as store:
        for _ in range(2):
            lease, trials = with_trials(store, 4, labels=[])
            ended = tuple(TrialChange(trial, state="COMPLETED", ended=4000.0) for trial in trials)
            over = ExperimentChange(state="COMPLETED", ended=4000.0)
            store.experiments.commit(lease, Change(trials=ended, experiment=over))
            store.experiments.release(lease)
    return search


@pytest.fixture(scope="package")
def few_ui(few: Search) -> Iterator[Ui]:
    """Run `det ui` on the store of the few trials."""
    with running_ui(few) as started:
        yield started


@pytest.fixture(scope="package")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[api.Browser]:
    """Start Chromium without a window."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with api.sync_playwright() as playwright:
        launched = launch(playwright.chromium, tmp_path_factory.mktemp("browser"))
        yield launched
        launched.close()


@pytest.fixture
def visitor(browser: api.Browser, ui: Ui) -> Iterator[Visitor]:
    """Return a browser profile that has logged in; an error on its console fails the test."""
    with visiting(browser, ui) as one:
        yield one


@pytest.fixture
def few_visitor(browser: api.Browser, few_ui: Ui) -> Iterator[Visitor]:
    """Return a browser profile that has logged in to the few trials."""
    with visiting(browser, few_ui) as one:
        yield one
