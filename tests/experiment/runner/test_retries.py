"""Which failures are retried, which end the trial, and which end the experiment."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from determined.engines.base import Exited
from determined.engines.local import LocalEngine
from determined.experiment.runner.restored_trials import trials
from determined.experiment.runner.trials.exit_classification import classify
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.trials.process import LogFindings, TrialProcess
from determined.experiment.runner.trials.trial_values import Failures, RowValues, TrialSpec
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
if how == "missing file":
    open("no-such-file")
if how == "exit":
    raise SystemExit(3)
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
HOW = ["import", "alike", "different", "reported", "missing file", "exit"]


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(2) as made:
        yield made


def test_what_would_fail_again_is_not_retried(
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
        "import": ("ERROR", 2, 1),
        "alike": ("ERROR", 2, 1),
        "different": ("ERROR", 3, 2),
        "reported": ("ERROR", 3, 2),
        "missing file": ("ERROR", 3, 2),
        "exit": ("ERROR", 3, 2),
    }
    assert {how: trial.reason for how, trial in found.items()} == {
        "import": "ModuleNotFoundError: No module named 'no_such_module' (train.py, line 11); not retried: "
        "same error twice",
        "alike": "ValueError: the same (library.py, line 7); not retried: same error twice",
        "different": "ValueError: start 2 (library.py, line 7); tried 3 times",
        "reported": "ValueError: after a report (library.py, line 7); tried 3 times",
        "missing file": "FileNotFoundError: [Errno 2] No such file or directory: 'no-such-file' (train.py, line 15); "
        "tried 3 times",
        "exit": "exit code 3; tried 3 times",
    }
    said = [record.getMessage() for record in caplog.records if "started again" in record.getMessage()]
    for how, trial in found.items():
        own = [line for line in said if line.startswith(f"trial {trial.id} ")]
        assert len(own) == trial.restarts, how
        for number, line in enumerate(own, start=1):
            assert f"failed and is started again (restart {number} of 2): " in line
    with opened() as store:  # the next runner would recognize it as well
        experiment_id = found["alike"].experiment_id
        restored = trials(store.experiments.trials(experiment_id), store.experiments.journal(experiment_id), {})
    assert {trial.spec.hparams["how"]: bool(trial.failures.without_report) for trial in restored} == {
        "import": True,
        "alike": True,
        "different": True,
        "reported": False,
        "missing file": True,
        "exit": True,
    }
    assert {trial.spec.hparams["how"] for trial in restored if trial.failures.repeated_error} == {"import", "alike"}


ERROR = "ValueError: no (train.py, line 3)"


def judged(error: str, *, code: int = 1, signal: str | None = None, before: str = ERROR, reported: bool = False) -> str:
    """Return the state of a trial whose attempt ended in some way, after one that ended with `before`."""
    trial = LiveTrial(TrialSpec(1, 0, "a", {}, 0, 0, ()), RowValues("QUEUED"), failures=Failures(without_report=before))
    trial.start(TrialProcess("1.a.1", log=LogFindings(errors={0: error} if error else {})))
    verdict = classify(
        Exited("1.a.1", code, signal, False, 0.0),
        trial,
        early_exit=None,
        acknowledged=False,
        saved_and_stopped=False,
        has_reported=reported,
        max_restarts=5,
    )
    assert verdict.restarts == (0 if verdict.state == "ERROR" else 1)
    return verdict.state


def test_only_the_same_exception_at_the_same_line_ends_a_trial() -> None:
    assert judged(ERROR) == "ERROR"
    assert judged(ERROR, reported=True) == "QUEUED"
    assert judged("ValueError: no (train.py, line 4)") == "QUEUED"
    assert judged("ValueError: yes (train.py, line 3)") == "QUEUED"
    assert judged("TypeError: no (train.py, line 3)") == "QUEUED"
    assert judged(ERROR, code=2) == "QUEUED", "the exception was handled: it did not end the interpreter"
    assert judged(ERROR, code=-11, signal="SIGSEGV") == "QUEUED"
    assert judged("", code=3, before="exit code 3") == "QUEUED"


@pytest.mark.parametrize(
    "name",
    [
        "OSError",
        "ConnectionResetError",
        "TimeoutError",
        "urllib.error.URLError",
        "requests.exceptions.ConnectionError",
        "MemoryError",
        "torch.OutOfMemoryError",
        "torch.cuda.OutOfMemoryError",
    ],
)
def test_what_may_pass_is_retried(name: str) -> None:
    error = f"{name}: again (train.py, line 3)"
    assert judged(error, before=error) == "QUEUED"


def test_running_out_of_memory_is_known_by_its_message() -> None:
    error = "RuntimeError: CUDA error: out of memory (train.py, line 3)"
    assert judged(error, before=error) == "QUEUED"


ALWAYS = """
import determined as det
raise TypeError("lr_head is a text" if det.get_cluster_info().trial.hparams["x"] < {above} else "another")
"""


@pytest.mark.parametrize(("above", "trials", "reason"), [(99, 3, True), (2, 6, False)])
def test_the_first_trials_with_the_same_error_end_the_experiment(
    above: int, trials: int, reason: bool, engine: LocalEngine, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "train.py").write_text(ALWAYS.replace("{above}", str(above)))
    config = {
        "name": "all-alike",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"x": {"type": "categorical", "vals": list(range(6))}},
        "searcher": {"name": "grid", "metric": "loss", "max_concurrent_trials": 1},
        "max_restarts": 5,
    }
    outcome = run(engine, tmp_path / "model", config)
    error = "TypeError: lr_head is a text (train.py, line 3)"
    started = [trial for trial in outcome.trials if trial.runs]
    assert outcome.experiment.state == "ERROR"
    assert len(started) == trials
    assert {(trial.state, trial.runs, trial.restarts) for trial in started} == {("ERROR", 2, 1)}
    expected = f"the first 3 trials failed with the same error: {error}"
    assert (outcome.experiment.reason == expected) is reason, outcome.experiment.reason


REPORTS = """
import determined as det
from determined import core
hparams = det.get_cluster_info().trial.hparams
with core.init() as context:
    for step in (1, 2):
        late = {"loss": 0.5} if step == 2 and hparams["x"] in {those} else {}
        context.train.report_validation_metrics(step, {"mse": 1.0, "mae": 2.0, **late})
    if {fails}:
        raise RuntimeError("the metric is missing")
"""


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("searcher", ["grid", "single"])
def test_a_program_that_never_reports_the_searcher_metric(
    searcher: str, fails: bool, engine: LocalEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "train.py").write_text(REPORTS.replace("{those}", "()").replace("{fails}", str(fails)))
    vals = [0, 1, 2, 3] if searcher == "grid" else [0]
    config = {
        "name": "no-metric",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"x": {"type": "categorical", "vals": vals}},
        "searcher": {"name": searcher, "metric": "loss", **({"max_concurrent_trials": 1} if len(vals) > 1 else {})},
        "max_restarts": 5,
    }
    outcome = run(engine, tmp_path / "model", config)
    message = "Metric 'loss' is not reported; reported: mse, mae"
    assert (outcome.experiment.state, outcome.experiment.reason) == ("ERROR", message)
    first, *others = outcome.trials
    assert (first.state, first.reason, first.runs, first.restarts) == ("ERROR", message, 1, 0)
    assert {(trial.state, trial.runs) for trial in others} <= {("CANCELED", 0)}
    assert message in caplog.text


def test_a_metric_that_another_trial_has_reported_is_no_mistake(engine: LocalEngine, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "train.py").write_text(REPORTS.replace("{those}", "(0,)").replace("{fails}", "False"))
    config = {
        "name": "some-metric",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"x": {"type": "categorical", "vals": [0, 1]}},
        "searcher": {"name": "grid", "metric": "loss", "max_concurrent_trials": 1},
    }
    outcome = run(engine, tmp_path / "model", config)
    assert [trial.state for trial in outcome.trials] == ["COMPLETED", "COMPLETED"]
    assert outcome.experiment.state == "COMPLETED"


def test_a_metric_of_det_run_is_not_demanded(engine: LocalEngine, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "train.py").write_text(REPORTS.replace("{those}", "()").replace("{fails}", "False"))
    config = {
        "name": "a-program",
        "entrypoint": ["python3", "train.py"],
        "hyperparameters": {"x": 0},
        "searcher": {"name": "single", "metric": "loss"},
    }
    assert run(engine, tmp_path / "model", config).experiment.state == "COMPLETED"
