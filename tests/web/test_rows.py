"""The tables of the page and the commands of `det` say the same of an experiment."""

from __future__ import annotations

import pytest

from determined.store.ranking import best_trials
from determined.store.rows import EndRow
from determined.store.store import Store
from tests.store.experiments import begin_managed, with_trials
from tests.store.rows import alive, begin, metric
from tests.web.site import Site


@pytest.mark.parametrize("smaller_is_better", [True, False])
def test_of_equal_trials_the_oldest_is_the_best(site: Site, store: Store, smaller_is_better: bool) -> None:
    lease, trials = with_trials(store, 3, smaller_is_better=smaller_is_better)
    for trial_id in trials:
        store.write([metric(begin_managed(store, lease, trial_id), "validation", 1, {"error": 0.5})])
    (row,) = site.get("/api/experiments")["rows"]
    assert row["best_trial"] == trials[0]
    assert row["best_trial"] == best_trials(store.experiments.trials(lease.experiment_id), smaller_is_better)[0].id


def test_the_attempt_that_began_last_decides_the_state_of_a_standalone_run(site: Site, store: Store) -> None:
    first = begin(store, external_experiment="sweep", external_trial="a")
    second = begin(store, external_experiment="sweep", external_trial="b")
    store.write([EndRow(first.trial_id, 1, "failed", 9.0, 1.0), EndRow(second.trial_id, 1, "stopped", 10.0, 1.0)])
    resumed = begin(store, previous=first)
    store.write([EndRow(resumed.trial_id, 2, "failed", 20.0, 1.0, reason="ValueError: no data")])
    assert resumed.trial_id == first.trial_id < second.trial_id

    (row,) = site.get("/api/experiments")["rows"]
    experiment = store.experiments.get(first.experiment_id)
    assert (row["state"], row["reason"], row["ended"]) == ("ERROR", "ValueError: no data", 20.0)
    assert (experiment.state, experiment.reason, experiment.ended) == ("ERROR", "ValueError: no data", 20.0)


def test_a_completed_trial_counts_as_complete_in_the_progress_of_a_standalone_run(site: Site, store: Store) -> None:
    first = begin(store, process=alive(), external_experiment="sweep", external_trial="a")
    begin(store, process=alive(), external_experiment="sweep", external_trial="b")
    store.write([EndRow(first.trial_id, 1, "completed", 9.0, 1.0)])
    (row,) = site.get("/api/experiments")["rows"]
    experiment = store.experiments.get(first.experiment_id)
    assert (row["state"], row["progress"]) == (experiment.state, experiment.progress) == ("ACTIVE", 0.5)
    trials = {trial["id"]: trial["progress"] for trial in site.get("/api/trials")["rows"]}
    assert trials == {trial.id: trial.progress for trial in store.experiments.trials(first.experiment_id)}
