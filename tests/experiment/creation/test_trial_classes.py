"""Trial classes that fail, on one slot and on two: states, reasons, and restarts from the newest checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from determined.engines.local import LocalEngine
from determined.store.experiment_records import Trial
from tests.experiment.inside import opened, run


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(2) as made:
        yield made


def config(troubles: list[str], length: int = 8, **fields: Any) -> dict[str, Any]:
    return {
        "name": "hurt",
        "entrypoint": "model_def:HurtTrial",
        "hyperparameters": {"global_batch_size": 4, "trouble": {"type": "categorical", "vals": troubles}},
        "searcher": {"name": "grid", "metric": "validation_loss", "max_length": {"batches": length}},
        "min_checkpoint_period": {"batches": 4},
        "scheduling_unit": 2,
        "max_restarts": 1,
        **fields,
    }


def by_trouble(trials: list[Trial]) -> dict[str, Trial]:
    return {trial.hparams["trouble"]: trial for trial in trials}


def test_troubles_on_one_slot(engine: LocalEngine) -> None:
    expected = {
        "none": ("COMPLETED", "", 1),
        "invalid_hp": ("INVALID_HP", "InvalidHP: not with these", 1),
        "late_invalid_hp": ("INVALID_HP", "InvalidHP: found out late", 1),
        "raise_at_start": (
            "ERROR",
            r"ValueError: no model like that \(model_def.py, line \d+\); not retried: same error twice",
            2,
        ),
        "raise": ("ERROR", r"RuntimeError: the sixth batch failed \(model_def.py, line \d+\); tried 2 times", 2),
        "raise_in_validation": ("ERROR", r"KeyError: 'no such label' \(model_def.py, line \d+\); tried 2 times", 2),
        "fatal": ("ERROR", r"RuntimeError: after the fatal thing \(.*\); not retried: .*'fatal things'", 1),
    }
    policies = [{"name": "fatal things", "pattern": "a fatal thing", "action": "cancel_retries"}]
    found = run(engine, "hurt", config(list(expected), log_policies=policies))
    assert found.experiment.state == "COMPLETED"
    for trouble, trial in by_trouble(found.trials).items():
        state, reason, starts = expected[trouble]
        assert (trial.state, trial.runs) == (state, starts), (trouble, trial.reason)
        assert re.fullmatch(reason, trial.reason or ""), (trouble, trial.reason)
    with opened() as store:
        # The second start resumed from the fourth batch, and failed in the sixth again.
        raised = store.attempts(by_trouble(found.trials)["raise"].id)
        assert [attempt.start_step for attempt in raised] == [0, 4]


@pytest.mark.parametrize("slots", [1, 2])
def test_an_error_after_a_progress_bar_that_was_not_ended(engine: LocalEngine, slots: int) -> None:
    """The traceback begins in the line of the bar; an earlier traceback is that of an error that was handled."""
    alone: dict[str, Any] = {"resources": {"slots_per_trial": slots}, "max_restarts": 0}
    found = run(engine, "hurt", config(["wrong_result"], **alone))
    (trial,) = found.trials
    with opened() as store:
        lines = [line.text for line in store.logs(trial.id)]
    begun = [line for line in lines if line.endswith("Traceback (most recent call last):")]
    assert any("62%" in line for line in begun), lines
    error = r"TypeError: train_batch\(\) must return a dict of metrics or a tensor, got str: 'no metrics'"
    assert re.fullmatch(rf"{error} \(\S+/determined/pytorch/loop.py, line \d+\)", trial.reason or ""), trial.reason


def test_the_log_of_a_trial_says_everything_once(engine: LocalEngine) -> None:
    """A line for each training report with its loss, for each validation and each checkpoint; no PIDs before them."""
    found = run(engine, "hurt", config(["none"], min_validation_period={"batches": 4}))
    (trial,) = found.trials
    with opened() as store:
        lines = [line.text for line in store.logs(trial.id)]
        uuids = [row.checkpoint_id for row in store.checkpoints(trial.id)]
    text = "\n".join(lines)
    assert len(uuids) == 2, text
    for uuid in uuids:  # a later deletion by the policy is logged as well
        assert len([line for line in lines if uuid in line and "Deleted" not in line]) == 1, text
    for batch in (2, 4, 6, 8):
        trained = [line for line in lines if f"batch {batch}/8 | loss " in line]
        assert len(trained) == 1, text
    for batch in (4, 8):
        validated = [line for line in lines if "validation_loss" in line and f"batch {batch}/8" in line]
        assert len(validated) == 1, text
    assert sum("validation_loss" in line for line in lines) == 2, text
    assert "report of group" not in text
    assert not [line for line in lines if re.match(r"(\[\d+\]|pid)", line)], text


@pytest.mark.parametrize("policy", ["best", "none"])
def test_the_first_validation_without_the_searcher_metric_ends_the_experiment(engine: LocalEngine, policy: str) -> None:
    """With the policy `none` the trial itself would continue: its length is far beyond the test."""
    fields = config(["none", "late_invalid_hp", "raise"], checkpoint_policy=policy, max_restarts=5)
    fields["searcher"] = {**fields["searcher"], "metric": "val_loss", "max_length": {"batches": 10**7}}
    fields["min_validation_period"] = {"batches": 2}
    found = run(engine, "hurt", fields | {"resources": {"max_slots": 1}})
    message = "Metric 'val_loss' is not reported; reported: validation_loss"
    assert (found.experiment.state, found.experiment.reason) == ("ERROR", message)
    first, *others = found.trials
    assert (first.state, first.reason, first.runs, first.restarts) == ("ERROR", message, 1, 0)
    assert {(trial.state, trial.runs) for trial in others} == {("CANCELED", 0)}


def test_a_rank_that_is_lost(engine: LocalEngine) -> None:
    """All ranks end, the first one to fail is named, and no process is left."""
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    two: dict[str, Any] = {"resources": {"slots_per_trial": 2}, "max_restarts": 0}
    found = run(engine, "hurt", config(["rank_raises", "rank_is_killed"], **two))
    shown = [re.sub(r"line \d+", "line N", trial.reason or "") for trial in found.trials]
    assert [(trial.state, reason, trial.runs) for trial, reason in zip(found.trials, shown, strict=True)] == [
        ("ERROR", "RuntimeError: the last rank failed (model_def.py, line N)", 1),
        ("ERROR", "the worker of rank 1 failed first, with exit code 137", 1),
    ]
    assert found.experiment.state == "ERROR"
    left = {process.pid for process in psutil.Process().children(recursive=True)} - before
    assert not left


def test_the_time_of_a_trial(engine: LocalEngine) -> None:
    found = run(engine, "hurt", config(["slow"], length=10_000, max_trial_seconds=1.5))
    (trial,) = found.trials
    assert (trial.state, trial.reason, trial.restarts) == ("COMPLETED", "its time limit was reached", 0)
    assert trial.latest_checkpoint is not None
    assert 0 < trial.steps_completed < 1000
    assert found.experiment.state == "COMPLETED"
