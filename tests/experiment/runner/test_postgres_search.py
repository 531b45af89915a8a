"""A search in PostgreSQL, whose server crashes again and again while it runs (R17)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from determined.store.store import Store
from tests.experiment.conftest import MakeSearch
from tests.helpers.postgres import PostgresServer, running_server
from tests.helpers.searches import Search
from tests.helpers.waiting import wait_until

CONFIG: dict[str, Any] = {
    "name": "crashing-server",
    "entrypoint": "python3 train.py 0.1 16",
    "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}},
    "searcher": {
        "name": "adaptive_asha",
        "metric": "loss",
        "max_trials": 8,
        "max_time": 16,
        "time_metric": "batches",
        "divisor": 2,
    },
    "max_restarts": 0,  # a trial that failed because of the server would be lost
    "reproducibility": {"experiment_seed": 5},
}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as made:
        yield made


def reports(store: Store) -> int:
    return sum(len(store.experiments.validations(trial.id)) for trial in store.experiments.trials(1))


def test_a_search_survives_crashes_of_its_server(make_search: MakeSearch, server: PostgresServer) -> None:
    undisturbed = make_search("steady", CONFIG)
    undisturbed.activate(undisturbed.create())
    search = make_search("steady", CONFIG, store=server.new_database())
    experiment = search.create()
    runner = search.start(experiment)
    for _ in range(3):
        wait_for_reports(search, 8)
        outages = noticed_outages(search)
        server.stop("immediate")
        wait_until(lambda outages=outages: noticed_outages(search) > outages)  # type: ignore[misc]
        server.start()
        assert runner.poll() is None, search.said.read_text()
    assert runner.wait(120) == 0, search.said.read_text()
    search.wait_for_exits()
    record = search.record(experiment)
    assert record == undisturbed.record(1)
    with search.opened() as store:
        for trial in store.experiments.trials(experiment):
            assert (trial.runs, trial.restarts, trial.reason or "") == (1, 0, "")
            steps = [metric.steps_completed for metric in store.metrics(trial.id, "validation")]
            assert steps == list(range(1, len(steps) + 1))


def noticed_outages(search: Search) -> int:
    return search.said.read_text().count("reports are queued and retried")


def wait_for_reports(search: Search, more: int) -> None:
    with search.opened() as store:
        before = reports(store)
    search.wait_for(lambda store: reports(store) >= before + more)
