"""Failed trials of real searches, grouped by error, with what distinguishes their hyperparameters."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from determined.engines.local import LocalEngine
from determined.experiment.creation.trial_alone import trial_alone
from determined.experiment.failures import FailureGroup, _beyond, _parts, failure_groups
from determined.experiment.runner.run import run_experiment
from determined.store.open import checked_place
from tests.cli.det_command import det, det_ok
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
    # A range of one value needs no argument.
    only_value = {"type": "categorical", "vals": [0.1]}
    assert again.experiment.config["hyperparameters"] == {"api_token": "********", "lr": only_value, "opt": "lion"}


ODD: dict[str, list[Any]] = {
    "net": [{"depth": 1}, {"depth": 2, "type": "wide", "inner": {"drop": [0.5, {}]}}],
    "sizes": [[1], [2, {"kind": None}]],
    "huge": [2**60 + 1, 2**60 + 2],
    "small": [0.5, 1e-07],
    "odd": [0, None],
    "flag": [False, True],
    "text": ["a: b", 'yes: [1] # "no" \u00e9\U0001f600\u2028\t\x7f'],
    "number": ["1.0", "1e5"],
    "a.b": [1, 2],
    "vals": [1, 2],
    "of = x": [1, 2],
}
"""Choices that a setting has to keep exactly."""


def test_the_commands_keep_choices_of_every_kind(engine: LocalEngine, tmp_path: Path) -> None:
    """Every trial fails, and prints its hyperparameters before."""
    (tmp_path / "train.py").write_text(
        "import json, determined\n"
        "print(json.dumps(determined.get_cluster_info().trial.hparams, sort_keys=True))\n"
        "raise ValueError('no')\n"
    )
    space: dict[str, Any] = {name: {"type": "categorical", "vals": choices} for name, choices in ODD.items()}
    space |= {
        "block": {"lr": {"type": "double", "minval": 0, "maxval": 1}},
        "fixed": {"type": "const", "val": {"a": 1}},
    }
    searcher = {"name": "random", "metric": "loss", "max_trials": 3}
    found = run(engine, tmp_path, {**config([], []), "hyperparameters": space, "searcher": searcher})
    assert any(trial.hparams != found.trials[0].hparams for trial in found.trials)
    (group,) = groups(found)
    assert group.command_note is None
    for trial in found.trials:
        alone = trial_alone(found.experiment, trial)
        words = ["experiment", "fork", "1", *(word for setting in alone.settings for word in ("--config", setting))]
        if trial.id == group.trial_ids[0]:
            assert group.command == shlex.join(["det", *words])
        det_ok(*words, "--paused")
        number = found.experiment.id + trial.number + 1
        run_experiment(checked_place(), number, engine=engine)
        again = outcome(number)
        assert [one.hparams for one in again.trials] == [trial.hparams]
        assert again.logs[0][0] == found.logs[trial.number][0]


def test_masked_choices_are_named(engine: LocalEngine) -> None:
    space = config([0.1], ["lion"])
    space["hyperparameters"]["api_token"] = {"type": "categorical", "vals": ["do-not-show", "nor-this"]}
    (group,) = groups(run(engine, "lion", space))
    assert group.command is not None
    assert "--config 'hyperparameters.api_token=\"********\"'" in group.command
    assert group.command_note == "Replace ******** by the secret value of api_token."
    refused = det(*shlex.split(group.command)[1:], "--paused")
    assert refused.exit_code == 1
    assert "asterisks in place of secrets: hyperparameters.api_token" in refused.stderr


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
