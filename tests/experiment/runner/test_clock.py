"""A wall clock that jumps changes nothing: durations are measured by another clock, order is by numbers (R22)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from determined.store.store import Store
from tests.experiment.conftest import MODELS, MakeSearch
from tests.helpers.searches import Search

ODD_CLOCK = Path(__file__).parents[1] / "odd_clock"
DAY = 86_400
CONFIG: dict[str, Any] = {
    "name": "odd-clock",
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
    "max_restarts": 0,
    "hang_timeout": 120,  # limits that are shorter than a day, and longer than the search
    "max_trial_seconds": 600,
    "preemption_timeout": 120,
    "reproducibility": {"experiment_seed": 5},
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    search = Search(tmp_path_factory.mktemp("undisturbed"), MODELS / "steady", CONFIG)
    search.activate(search.create())
    return search.record(1)


@pytest.mark.thorough
@pytest.mark.parametrize("days", [(-1, 1), (1, -1)], ids=["back", "forward"])
def test_a_day_back_and_forward(
    make_search: MakeSearch, tmp_path: Path, undisturbed: dict[str, Any], days: tuple[int, int]
) -> None:
    off = tmp_path / "seconds-off"
    off.write_text("0")
    search = make_search("steady", CONFIG)
    experiment = search.create()
    search.environment |= {"PYTHONPATH": str(ODD_CLOCK), "SECONDS_OFF": str(off)}
    runner = search.start(experiment)
    for day in days:
        wait_for_reports(search, 8)
        set_off(off, day * DAY)
    wait_for_reports(search, 4)
    with search.opened() as store:
        store.experiments.request(experiment, "pause")  # by the correct clock
    assert runner.wait(15) == 1
    with search.opened() as store:
        written = [row.reported for trial in store.experiments.trials(experiment) for row in store.metrics(trial.id)]
        assert max(written) - min(written) > DAY / 2  # the clock did jump
        assert store.experiments.get(experiment).state == "PAUSED"
    set_off(off, -2 * days[1] * DAY)
    search.activate(experiment)
    search.wait_for_exits()
    assert search.record(experiment) == undisturbed
    with search.opened() as store:
        assert all(trial.reason in (None, "") for trial in store.experiments.trials(experiment))


def set_off(file: Path, seconds: float) -> None:
    """Set the offset atomically."""
    draft = file.with_suffix(".new")
    draft.write_text(str(seconds))
    draft.replace(file)


def reports(store: Store) -> int:
    return sum(len(store.metrics(trial.id)) for trial in store.experiments.trials(1))


def wait_for_reports(search: Search, more: int) -> None:
    with search.opened() as store:
        before = reports(store)
    search.wait_for(lambda store: reports(store) >= before + more)
