"""Failed trials of real searches, grouped by error, with what distinguishes their hyperparameters."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from determined.engines.local import LocalEngine
from determined.experiment.failures import FailureGroup, _beyond, _parts, failure_groups
from tests.cli.running import det_ok
from tests.experiment.inside import Outcome, opened, outcome, run


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(2) as made:
        yield made


def config(lrs: list[float], opts: list[str]) -> dict[str, Any]:
    return {
        "name": "failing",
        "entrypoint": "python3 train.py",
        "hyperparameters": {
            "lr": {"type": "categorical", "vals": lrs},
            "opt": {"type": "categorical", "vals": opts},
            "api_token": "do-not-show",
        },
        "searcher": {"name": "grid", "metric": "loss"},
        "max_restarts": 0,
    }


def groups(found: Outcome) -> list[FailureGroup]:
    with opened() as store:
        return failure_groups(store, [found.experiment.id])


def test_two_errors_of_one_search(engine: LocalEngine) -> None:
    found = run(engine, "lion", config([0.1, 0.2, 0.9], ["sgd", "lion", "adam"]))
    lion, fast = groups(found)
    by_id = {trial.id: trial for trial in found.trials}
    assert [by_id[trial].hparams["opt"] for trial in lion.trial_ids] == ["lion"] * 3
    assert lion.error == "ValueError: step … of conv1 diverged at …"
    assert lion.example.startswith(f"ValueError: step {lion.trial_ids[0]} of conv1 diverged")
    assert (lion.file, lion.line) == ("train.py", 18)
    assert lion.experiment_ids == [found.experiment.id]
    (distinction,) = lion.distinctions
    assert (distinction.text, distinction.failed) == ("opt = lion", 3)
    assert (distinction.others, distinction.other_trials) == (0, 6)
    assert lion.last_lines[0] == "begins with lion"
    assert lion.example.startswith(lion.last_lines[-1])
    assert fast.error == fast.example.partition(" (")[0] == "RuntimeError: too fast"
    assert len(fast.trial_ids) == 2
    assert [(d.text, d.others) for d in fast.distinctions] == [("lr = 0.9", 1)]  # the third one failed differently
    assert "do-not-show" not in repr([lion, fast])


def test_the_command_runs_the_trial_again(engine: LocalEngine) -> None:
    found = run(engine, "lion", config([0.1], ["lion", "sgd"]))
    (group,) = groups(found)
    assert group.command is not None
    words = shlex.split(group.command)
    assert words[0] == "det"
    det_ok(*words[1:], "--paused")
    again = outcome(found.experiment.id + 1)
    assert again.experiment.config["searcher"]["name"] == "single"
    assert again.experiment.config["hyperparameters"] == {"api_token": "********", "lr": 0.1, "opt": "lion"}


def test_a_search_without_failures_and_one_where_all_fail(engine: LocalEngine) -> None:
    assert groups(run(engine, "lion", config([0.1], ["sgd"]))) == []
    (group,) = groups(run(engine, "lion", config([0.1], ["lion"])))
    assert group.distinctions == []  # there is no trial to compare with


def test_groups_over_several_experiments(engine: LocalEngine) -> None:
    first, second = (run(engine, "lion", config([0.1], ["lion", "sgd"])) for _ in range(2))
    with opened() as store:
        (group,) = failure_groups(store, [first.experiment.id, second.experiment.id])
    assert group.experiment_ids == [first.experiment.id, second.experiment.id]
    assert len(group.trial_ids) == 2
    assert [(d.text, d.failed, d.other_trials) for d in group.distinctions] == [("opt = lion", 2, 2)]


@pytest.mark.parametrize(
    ("reason", "parts"),
    [
        ("ValueError: a (b) c (train.py, line 12)", ("ValueError: a (b) c", "train.py", 12)),
        ("ValueError: x (train.py, line 3); not retried: same error twice", ("ValueError: x", "train.py", 3)),
        ("exit code 3; not retried: a line matches", ("exit code 3", None, None)),
        ("out of memory: ended by the operating system", ("out of memory: ended by the operating system", None, None)),
        ("first\nsecond (a b.py, line 7)", ("first\nsecond", "a b.py", 7)),
    ],
)
def test_the_place_of_an_error(reason: str, parts: tuple[str, str | None, int | None]) -> None:
    assert _parts(reason) == parts


def test_ranges_of_numbers() -> None:
    low, high = [{"lr": 0.1}, {"lr": 0.2}], [{"lr": 0.7}, {"lr": 0.9}]
    assert _beyond("lr", high, low) == ("lr >= 0.7", 0)
    assert _beyond("lr", low, high) == ("lr <= 0.2", 0)
    assert _beyond("lr", [{"lr": 0.1}, {"lr": 0.9}], [{"lr": 0.5}]) is None
    assert _beyond("lr", [{"lr": float("nan")}], low) is None
    assert _beyond("lr", high, [{}]) is None
