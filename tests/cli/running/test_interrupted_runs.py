"""Commands and the SDK with standalone runs that were interrupted or requested to stop."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from determined import core
from determined.experimental import Determined
from determined.store.process import this_process
from determined.store.rows import AttemptStart, EndRow, NewRun
from determined.store.store import Store
from tests.cli.det_command import det, det_json, det_ok
from tests.helpers.waiting import wait_until


def interrupted(store: Store, key: str = "run") -> int:
    """Return the id of an experiment whose program was interrupted."""
    run = NewRun("/home/me/train.py", "runs/1", {}, {}, 1_790_000_000.0)
    begun = store.begin_attempt(AttemptStart(key, run, this_process(), 1_790_000_000.0))
    store.write([EndRow(begun.trial_id, begun.number, "stopped", 1_790_000_060.0, 60.0, exit_code=130)])
    return begun.experiment_id


def state(number: int) -> tuple[str, str]:
    (described,) = det_json("e", "describe", str(number))
    return described["state"], described["trials"][0]["state"]


def test_it_is_listed_as_paused(store: Store) -> None:
    number = interrupted(store)
    assert [row["id"] for row in det_json("e", "ls", "--state", "PAUSED")] == [number]
    assert det_json("e", "ls", "--state", "CANCELED") == []
    assert state(number) == ("PAUSED", "PAUSED")


def test_what_resumes_it_is_named(store: Store) -> None:
    number = interrupted(store)
    activated, waited = det("e", "activate", str(number)), det("e", "wait", str(number))
    assert "start the program again" in activated.stderr
    assert "it is paused. To resume it: start its program again: /home/me/train.py" in waited.stderr
    assert (activated.exit_code, waited.exit_code) == (1, 1)
    assert det_ok("e", "pause", str(number)) == f"Experiment {number} is already paused.\n"
    with pytest.raises(ValueError, match=r"To resume it, start its program again: /home/me/train\.py"):
        Determined().get_experiment(number).wait()
    assert state(number) == ("PAUSED", "PAUSED")


@pytest.mark.parametrize("command", ["cancel", "kill"])
def test_it_can_be_canceled_without_a_process(store: Store, command: str) -> None:
    number, other = interrupted(store), interrupted(store, "other")
    printed = det_ok("e", command, str(number))
    assert printed == f"Experiment {number} was not running; it is now canceled.\n"
    assert state(number) == ("CANCELED", "CANCELED")
    assert state(other) == ("PAUSED", "PAUSED")
    again = det("e", command, str(number))
    assert again.exit_code == 1
    assert "it has already ended (CANCELED)" in again.stderr


def test_its_trial_can_be_killed_without_a_process(store: Store) -> None:
    number = interrupted(store)
    (trial,) = store.experiments.trials(number)
    assert det_ok("trial", "kill", str(trial.id)) == f"Trial {trial.id} was not running; it is now canceled.\n"
    assert state(number) == ("CANCELED", "CANCELED")
    other = interrupted(store, "other")
    Determined().get_trial(store.experiments.trials(other)[0].id).kill()
    assert state(other) == ("CANCELED", "CANCELED")


def test_it_can_be_archived_and_deleted(store: Store) -> None:
    number = interrupted(store)
    det_ok("e", "archive", str(number))
    det_ok("e", "delete", str(number), "--yes")
    assert store.experiments.list(archived=True) == []


@pytest.mark.parametrize(
    ("request_kind", "expected"), [("pause", "PAUSED"), ("cancel", "CANCELED"), ("kill", "CANCELED")]
)
def test_a_program_that_handles_a_request_has_not_completed(
    store: Store, tmp_path: Path, request_kind: Literal["pause", "cancel", "kill"], expected: str
) -> None:
    with core.init(checkpoint_storage=str(tmp_path)) as context:
        context.train.report_validation_metrics(1, {"loss": 1.0})
        (experiment,) = store.experiments.list()
        det_ok("e", request_kind, str(experiment.id))
        wait_until(context.preempt.should_preempt)
    assert state(experiment.id) == (expected, expected)


def test_a_request_that_the_program_ignored_changes_nothing(store: Store, tmp_path: Path) -> None:
    with core.init(checkpoint_storage=str(tmp_path)) as context:
        context.train.report_validation_metrics(1, {"loss": 1.0})
        (experiment,) = store.experiments.list()
        det_ok("e", "cancel", str(experiment.id))
        wait_until(context.preempt.pending)
    assert state(experiment.id) == ("COMPLETED", "COMPLETED")
