"""Every search method with real trials: number, length, state and hyperparameters of the trials."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from determined.engines.local import LocalEngine
from determined.experiment.runner.run import run_experiment
from determined.store.open import checked_place
from determined.store.substores.queue import NewEntry
from tests.experiment.inside import Outcome, create, opened, run

LR = {"type": "double", "minval": 0.1, "maxval": 1.0}
HALVING = {"max_trials": 8, "time_metric": "batches", "max_time": 16, "divisor": 2}


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(2) as made:
        yield made


def config(searcher: dict[str, Any], slots: int = 2, **fields: Any) -> dict[str, Any]:
    return {
        "name": "methods",
        "entrypoint": "python3 train.py 0.01 16",
        "hyperparameters": {"lr": LR},
        "searcher": {"metric": "loss", **searcher},
        "resources": {"max_slots": slots},
        "reproducibility": {"experiment_seed": 21},
        "max_restarts": 0,
        **fields,
    }


def lengths(found: Outcome) -> list[int]:
    """Return how long each trial has trained; every step was reported once."""
    trained = []
    for trial in found.trials:
        steps = [report["batches"] for report in found.validations[trial.number]]
        assert steps == list(range(1, len(steps) + 1))
        trained.append(len(steps))
    return trained


def starts(found: Outcome, number: int) -> list[tuple[str | None, int, int]]:
    """Return for each start of a trial its checkpoint, the steps in it, and how many of them are its own."""
    lines = (found.work_dir(number) / "starts.txt").read_text().splitlines()
    words = [line.split() for line in lines]
    return [(None if uuid == "None" else uuid, int(held), int(own)) for uuid, held, own in words]


def record(found: Outcome) -> list[Any]:
    """Return all that must not depend on speed. Pauses do: the last trial to reach a rung ends there if the rung is
    closed.
    """
    with opened() as store:
        decisions: dict[int, list[Any]] = {trial.number: [] for trial in found.trials}
        for entry in store.experiments.journal(found.experiment.id):
            for action in entry.actions:
                if action["action"] != "pause":
                    decisions[action["number"]].append((action["action"], action.get("goal"), action.get("finished")))
    return [
        (trial.number, trial.hparams, trial.seed, trial.state, trial.bracket, trial.best, decisions[trial.number])
        for trial in found.trials
    ] + [found.validations, found.experiment.best]


def test_single(engine: LocalEngine) -> None:
    found = run(engine, "steady", config({"name": "single"}, hyperparameters={"lr": 0.5}))
    assert ([trial.state for trial in found.trials], lengths(found)) == (["COMPLETED"], [16])


def test_one_that_waits_in_the_queue_and_is_run_here_leaves_it(engine: LocalEngine) -> None:
    quick = {**config({"name": "single"}, hyperparameters={"lr": 0.5}), "entrypoint": "python3 train.py 0 1"}
    experiment = create(engine, "steady", quick)
    with opened() as store:
        store.queue.add(NewEntry(experiment, "some machine", "somebody"))
        run_experiment(checked_place(), experiment, engine=engine)
        assert store.experiments.get(experiment).state == "COMPLETED"
        assert store.queue.find(experiment) is None


def test_random(engine: LocalEngine) -> None:
    found = run(engine, "steady", config({"name": "random", "max_trials": 6, "max_concurrent_trials": 3}))
    assert lengths(found) == [16] * 6
    assert {trial.state for trial in found.trials} == {"COMPLETED"}
    assert len({trial.hparams["lr"] for trial in found.trials}) == 6
    assert all(0.1 <= trial.hparams["lr"] <= 1.0 for trial in found.trials)
    assert len({trial.seed for trial in found.trials}) == 6
    assert found.experiment.progress == 1.0


def test_grid(engine: LocalEngine) -> None:
    space = {"lr": {**LR, "count": 3}, "depth": {"type": "categorical", "vals": ["a", "b"]}}
    found = run(engine, "steady", config({"name": "grid"}, hyperparameters=space))
    assert lengths(found) == [16] * 6
    points = sorted((round(trial.hparams["lr"], 9), trial.hparams["depth"]) for trial in found.trials)
    assert points == [(0.1, "a"), (0.1, "b"), (0.55, "a"), (0.55, "b"), (1.0, "a"), (1.0, "b")]


@pytest.mark.parametrize(
    "searcher",
    [
        {"name": "async_halving", "num_rungs": 3},
        {"name": "adaptive_asha", "mode": "standard", "max_rungs": 3},
    ],
    ids=["async_halving", "adaptive_asha"],
)
def test_halving_by_stopping(engine: LocalEngine, searcher: dict[str, Any]) -> None:
    found = run(engine, "steady", config({**searcher, **HALVING}))
    assert len(found.trials) == 8
    for trial, length in zip(found.trials, lengths(found), strict=True):
        assert length in trial.rungs
        assert trial.state == ("COMPLETED" if length == 16 else "STOPPED_EARLY")
        assert trial.runs == 1
    states = [trial.state for trial in found.trials]
    assert 1 <= states.count("COMPLETED") < 8
    assert record(run(engine, "steady", config({**searcher, **HALVING}, slots=1))) == record(found)


@pytest.mark.parametrize(
    "searcher",
    [
        {"name": "async_halving", "num_rungs": 3, "stop_once": False},
        {"name": "adaptive_asha", "max_rungs": 3, "stop_once": False},
    ],
    ids=["async_halving", "adaptive_asha"],
)
def test_halving_by_promotion(engine: LocalEngine, searcher: dict[str, Any]) -> None:
    """Trials pause at a rung with a checkpoint; promoted ones resume there, and stop exactly at the next rung."""
    found = run(engine, "steady", config({**searcher, **HALVING}))
    assert len(found.trials) == 8
    for trial, length in zip(found.trials, lengths(found), strict=True):
        assert length in trial.rungs
        assert trial.state == ("COMPLETED" if length == 16 else "STOPPED_EARLY")
        for _, held, own in starts(found, trial.number)[1:]:
            assert held == own
            assert own in trial.rungs
    promoted = [trial for trial in found.trials if trial.runs > 1]
    assert promoted, "nobody was paused and promoted: choose another seed"
    assert all(trial.restarts == 0 for trial in found.trials)
    # The best half by the results at the first rung trained longer.
    with opened() as store:
        actions = [action["action"] for e in store.experiments.journal(found.experiment.id) for action in e.actions]
    assert "pause" in actions
    assert record(run(engine, "steady", config({**searcher, **HALVING}, slots=1))) == record(found)


@pytest.mark.parametrize("slots", [1, 2])
def test_population(engine: LocalEngine, slots: int) -> None:
    searcher = {
        "name": "pbt",
        "population_size": 4,
        "num_rounds": 3,
        "length_per_round": {"batches": 4},
        "replace_function": {"truncate_fraction": 0.25},
        "explore_function": {"resample_probability": 0.0, "perturb_factor": 0.2},
    }
    found = run(engine, "steady", config(searcher, slots))
    assert len(found.trials) == 6  # after two of three rounds one is replaced
    trained, copies = lengths(found), found.trials[4:]
    assert sum(trained) == 4 * 3 * 4
    assert all(length % 4 == 0 for length in trained)
    assert sorted(trial.state for trial in found.trials) == ["COMPLETED"] * 4 + ["STOPPED_EARLY"] * 2
    with opened() as store:
        owners = {c.checkpoint_id: c.trial_id for c in store.experiments.checkpoints(found.experiment.id)}
    for copy, first in zip(copies, (4, 8), strict=True):
        given, held, own = starts(found, copy.number)[0]
        assert (held, own) == (first, 0)
        assert given is not None
        (parent,) = [trial for trial in found.trials if trial.id == owners[given]]
        ratio = copy.hparams["lr"] / parent.hparams["lr"]
        assert any(ratio == pytest.approx(r) for r in (0.8, 1.2)) or copy.hparams["lr"] in (0.1, 1.0)
        compared = {t.number: found.validations[t.number] for t in found.trials if t.number < copy.number}
        present = {n: reports[first - 1]["loss"] for n, reports in compared.items() if len(reports) >= first}
        assert parent.number == min(present, key=lambda number: present[number])


def test_optuna(engine: LocalEngine) -> None:
    pytest.importorskip("optuna")
    searcher = {"name": "optuna", "sampler": "tpe", "max_trials": 8, "max_time": 16, "time_metric": "batches"}
    found = run(engine, "steady", config({**searcher, "num_rungs": 2}, slots=1))
    assert len(found.trials) == 8
    assert set(lengths(found)) <= {4, 16}
    assert all(0.1 <= trial.hparams["lr"] <= 1.0 for trial in found.trials)
    assert record(run(engine, "steady", config({**searcher, "num_rungs": 2}, slots=1))) == record(found)


def test_warm_start(engine: LocalEngine) -> None:
    first = run(engine, "steady", config({"name": "single"}, hyperparameters={"lr": 0.5}))
    with opened() as store:
        (checkpoint,) = store.checkpoints(first.trials[0].id)
    for source in ({"source_trial_id": first.trials[0].id}, {"source_checkpoint_uuid": checkpoint.checkpoint_id}):
        found = run(engine, "steady", config({"name": "random", "max_trials": 2, **source}))
        assert lengths(found) == [16, 16]
        for trial in found.trials:
            assert starts(found, trial.number) == [(checkpoint.checkpoint_id, 16, 0)]
            assert trial.latest_checkpoint not in (None, checkpoint.checkpoint_id)
    with opened() as store:
        assert [known.state for known in store.checkpoints(first.trials[0].id)] == ["ACTIVE"]
