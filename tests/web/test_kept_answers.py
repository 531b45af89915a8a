"""What the server keeps between requests is what it would find anew, after every change of the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from determined.store.experiment_changes import Change, ExperimentChange, TrialChange
from determined.store.process import this_process
from determined.store.rows import EndRow, LogRow
from determined.store.store import Store
from tests.store.experiments import begin_managed, held_experiment, new_trial, with_trials
from tests.store.rows import GONE, begin, checkpoint, metric
from tests.web.site import Site

SPACE = {"lr": {"type": "categorical", "vals": [0.1, 0.2]}}
CONFIG = {"searcher": {"name": "random", "metric": "error", "max_trials": 4}, "hyperparameters": SPACE}


def changes(store: Store) -> list[Callable[[], object]]:
    """Changes of every kind that failures, metrics, searches and comparisons show."""
    lease, trials = with_trials(store, 4, config=CONFIG)
    commit = store.experiments.commit
    attempts = [begin_managed(store, lease, trial) for trial in trials[:3]]
    (other, (alone,)) = with_trials(store, 1, config=CONFIG)
    runs = [begin(store, process=this_process()), begin(store, process=GONE)]

    def change(trial: int, **values: object) -> Callable[[], object]:
        return lambda: commit(lease, Change(trials=(TrialChange(trial, **values),)))  # type: ignore[arg-type]

    def log(trial: int, text: str) -> Callable[[], object]:
        return lambda: store.write([LogRow(trial, 1, 0, len(text), "stdout", text, 3000.0, "INFO")])

    return [
        change(trials[0], state="ERROR", reason="ValueError: 1", runs=1, ended=5.0),
        change(trials[1], state="COMPLETED", runs=1, ended=6.0),
        log(trials[0], "the last words"),
        change(trials[2], state="INVALID_HP", reason="ValueError: 2", runs=1, ended=7.0),
        lambda: begin_managed(store, lease, trials[3], passed={"lr": 0.7, "deep": {"x": 1}}),
        change(trials[3], state="COMPLETED", runs=1, ended=8.0),
        change(trials[2], state="QUEUED"),
        change(trials[2], state="ERROR", reason="ValueError: 2", runs=2, ended=9.0),
        lambda: store.write([metric(attempts[0], "training", 1, {"loss": 1.0})]),
        lambda: store.write([metric(attempts[0], "training", 2, {"new": 1.0}), checkpoint(attempts[0], 2)]),
        lambda: store.write([EndRow(runs[0].trial_id, 1, "failed", 4000.0, 1.0, reason="OSError: 3", exit_code=1)]),
        log(runs[1].trial_id, "nobody knows"),
        lambda: commit(lease, Change(new_trials=(new_trial(4, hparams={"lr": 0.2}),))),
        lambda: store._database.execute("UPDATE experiments SET config = ? WHERE id = ?", ["{}", lease.experiment_id]),
        lambda: store.write([metric(begin_managed(store, other, alone), "training", 1, {"loss": 1.0})]),
        lambda: commit(other, Change(trials=(TrialChange(alone, state="ERROR", reason="x", runs=1, ended=3.0),))),
        lambda: commit(other, Change(experiment=ExperimentChange(state="ERROR", ended=3.0))),
        lambda: store.upkeep.set_archived(other.experiment_id, True),
        lambda: held_experiment(store),
    ]


def test_kept_answers_are_those_of_a_new_server(site: Site, store: Store, place: str, static: Path) -> None:
    steps = changes(store)
    paths = ["/api/failures", "/api/metrics", "/api/compare?trials=1,2,3"]
    paths += ["/api/trials?metric=training/loss", "/api/trials?metric=training/loss&metric=training/new"]
    paths += [
        path
        for number in (1, 2)
        for path in (f"/api/failures?experiment={number}", f"/api/metrics?experiment={number}")
    ]
    before = [shown(site, path) for path in paths]
    for step in steps:
        step()
        with Site(place, static) as anew:
            assert [shown(site, path) for path in paths] == [shown(anew, path) for path in paths]
    assert all(shown(site, path) != known for path, known in zip(paths, before, strict=True))


def shown(site: Site, path: str) -> object:
    answer = site.get(path)
    return {name: value for name, value in answer.items() if name != "version"}


@pytest.mark.parametrize("path", ["/api/failures", "/api/failures?experiment=1"])
def test_failures_are_compared_once(site: Site, store: Store, path: str) -> None:
    """A report of a running trial changes none: the same groups are sent again."""
    for step in changes(store)[:3]:
        step()
    first = site.get(path)["groups"]
    question = 1 if "=" in path else None
    kept = site.app.state.server.failures.of(question)
    groups = kept._known[1]
    store.write([metric(begin(store, process=this_process()), "training", 1, {"loss": 1.0})])
    assert site.get(path)["groups"] == first
    assert (kept._known[1] is groups) == (question is not None)  # a run that began may have failed
