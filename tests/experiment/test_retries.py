"""Which failures are tried again, and what is said of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from determined.engines.base import Exited
from determined.engines.local import LocalEngine
from determined.experiment.exits import Verdict, judge
from determined.experiment.restoring import trials
from determined.experiment.trials import LiveTrial, Process
from tests.experiment.inside import opened, run

PROGRAM = """
import pathlib
import determined as det
from determined import core
from library import fail

start = len(list(pathlib.Path().glob("start-*")))
pathlib.Path(f"start-{start}").touch()
how = det.get_cluster_info().trial.hparams["how"]
if how == "import":
    import no_such_module
if how == "alike":
    fail("the same")
if how == "different":
    fail(f"start {start}")
with core.init() as context:
    context.train.report_training_metrics(1, {"loss": 1.0})
    fail("after a report")
"""
LIBRARY = """
import json
def fail(text):
    try:
        json.loads("{")
    except ValueError:
        raise ValueError(text)
"""
HOW = ["import", "alike", "different", "reported"]


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(2) as made:
        yield made


def test_what_would_fail_again_is_not_tried_again(
    engine: LocalEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "determined")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "train.py").write_text(PROGRAM)
    (tmp_path / "model" / "library.py").write_text(LIBRARY)
    config = {
        "name": "failing",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"how": {"type": "categorical", "vals": HOW}},
        "searcher": {"name": "grid", "metric": "loss"},
        "max_restarts": 2,
    }
    found = {trial.hparams["how"]: trial for trial in run(engine, tmp_path / "model", config).trials}
    assert {how: (trial.state, trial.runs, trial.restarts) for how, trial in found.items()} == {
        "import": ("ERROR", 1, 0),
        "alike": ("ERROR", 2, 1),
        "different": ("ERROR", 3, 2),
        "reported": ("ERROR", 3, 2),
    }
    assert {how: trial.reason for how, trial in found.items()} == {
        "import": "ModuleNotFoundError: No module named 'no_such_module' (train.py, line 11); not tried again: "
        "a failing import fails every time",
        "alike": "ValueError: the same (library.py, line 7); not tried again: "
        "the attempt before failed in the same way, both before any report",
        "different": "ValueError: start 2 (library.py, line 7); tried 3 times",
        "reported": "ValueError: after a report (library.py, line 7); tried 3 times",
    }
    said = sorted(record.getMessage() for record in caplog.records if "started again" in record.getMessage())
    ids = {how: trial.id for how, trial in found.items()}
    again = "failed and is started again"
    assert said == sorted(
        [
            f"trial {ids['alike']} {again} (restart 1 of 2): ValueError: the same (library.py, line 7)",
            f"trial {ids['different']} {again} (restart 1 of 2): ValueError: start 0 (library.py, line 7)",
            f"trial {ids['different']} {again} (restart 2 of 2): ValueError: start 1 (library.py, line 7)",
            f"trial {ids['reported']} {again} (restart 1 of 2): ValueError: after a report (library.py, line 7)",
            f"trial {ids['reported']} {again} (restart 2 of 2): ValueError: after a report (library.py, line 7)",
        ]
    )
    with opened() as store:  # the next runner would know it as well
        restored = trials(lambda question: question(store.experiments), found["alike"].experiment_id, {})
    assert {trial.hparams["how"]: bool(trial.failure_without_report) for trial in restored} == {
        "import": False,
        "alike": True,
        "different": True,
        "reported": False,
    }


@pytest.mark.parametrize(
    ("before", "has_reported", "state"),
    [(None, False, "QUEUED"), ("exit code 3", False, "ERROR"), ("exit code 3", True, "QUEUED"), ("x", False, "QUEUED")],
)
def test_attempts_without_a_report_are_compared(before: str | None, has_reported: bool, state: str) -> None:
    trial = LiveTrial(1, 0, "a", {}, 0, 0, (), None, "RUNNING", process=Process("1.a.1"), failure_without_report=before)
    verdict = judge(
        Exited("1.a.1", 3, None, False, 0.0),
        trial,
        early_exit=None,
        acknowledged=False,
        stopped_politely=False,
        has_reported=has_reported,
        max_restarts=5,
    )
    assert isinstance(verdict, Verdict)
    assert verdict.state == state
