"""An experiment on nodes is paused, interrupted and killed while another one runs there: as on one machine."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from subprocess import Popen

import pytest

from tests.helpers.searches import Search
from tests.helpers.waiting import wait_until
from tests.ray.cluster import RayCluster
from tests.ray.conftest import MakeSearch
from tests.ray.test_faults import MODEL, SLOW

# Longer than this test.
LONG = {**SLOW, "searcher": {**SLOW["searcher"], "max_length": {"batches": 40_000}}}


def steps(search: Search, experiment: int) -> list[int]:
    with search.opened() as store:
        return [trial.steps_completed for trial in store.experiments.trials(experiment)]


def has_trained(search: Search, experiment: int, before: int) -> bool:
    return max(steps(search, experiment), default=0) > before


def state(search: Search, experiment: int) -> str:
    with search.opened() as store:
        return str(store.experiments.get(experiment).state)


def interrupt(runner: Popen[str], times: int) -> None:
    for _ in range(times):
        runner.send_signal(signal.SIGINT)


@pytest.mark.thorough
def test_requests_and_interrupts(cluster: RayCluster, make_search: MakeSearch) -> None:
    search, other = make_search(LONG, cluster, model=MODEL), make_search(SLOW, cluster, model=MODEL)
    experiment, beside = search.create(), other.create()
    ends: list[tuple[Callable[[Popen[str]], object], str]] = [
        (lambda runner: search.det("experiment", "pause", str(experiment)), "PAUSED"),
        (lambda runner: interrupt(runner, 1), "PAUSED"),
        (lambda runner: interrupt(runner, 2), "PAUSED"),
        (lambda runner: search.det("experiment", "kill", str(experiment)), "CANCELED"),
    ]
    neighbour = other.start(beside)
    try:
        for end, expected in ends:
            before = max(steps(search, experiment), default=0)
            runner = search.start(experiment)
            wait_until(partial(has_trained, search, experiment, before), "nothing was trained")
            end(runner)
            runner.wait(120)
            assert state(search, experiment) == expected, search.said.read_text()
            search.wait_for_exits()
        assert neighbour.wait(120) == 0, other.said.read_text()
    finally:
        neighbour.kill()
        neighbour.wait()
    assert other.record(beside)["state"] == "COMPLETED"
    wait_until(lambda: not any(node.workers() for node in cluster.nodes.values()), "a job lives on")
    assert [node.files() for node in cluster.nodes.values()] == [[], [], []]
