"""The states of a trial: the transitions are those of ARCHITECTURE.md, and rows agree with the runner's memory."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest

import determined
from determined.engines.local import LocalEngine
from determined.experiment.control import request
from determined.experiment.runner.run import run_experiment
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.trials.observed import Observed, Result
from determined.experiment.runner.trials.process import Activity, LogFindings, TrialProcess
from determined.experiment.runner.trials.trial_values import ComparisonWait, RowValues, TrialSpec
from determined.experiment.runner.view import View
from determined.store.experiment_changes import Change, NewExperiment, NewTrial, TrialChange
from determined.store.open import checked_place
from determined.store.process import this_process
from determined.store.states import TRIAL_ENDED, TrialState
from determined.store.store import Store
from tests.experiment.inside import create, opened, outcome

SOURCE = Path(determined.__file__).parent
RUNNER = SOURCE / "experiment" / "runner"
STATES: tuple[TrialState, ...] = get_args(TrialState)

# Every way to call each transition.
CALLS: dict[str, list[Callable[[LiveTrial], TrialChange]]] = {
    "start": [lambda trial: trial.start(TrialProcess("1.a.9"))],
    "start_failed": [lambda trial: trial.start_failed()],
    "request_stop": [lambda trial: trial.request_stop("pause"), lambda trial: trial.request_stop("kill")],
    "place_on": [lambda trial: trial.place_on(["a", "b"])],
    "suspend": [lambda trial: trial.suspend()],
    "stop": [lambda trial: trial.stop("finish"), lambda trial: trial.stop("stop")],
    "continue_to": [lambda trial: trial.continue_to(32.0), lambda trial: trial.continue_to(None)],
    "requeue": [
        lambda trial: trial.requeue(paused=False, restarts=trial.restarts + 1, reason="it failed"),
        lambda trial: trial.requeue(paused=True),
    ],
    "end": [lambda trial, state=state: trial.end(state, "it ended") for state in TRIAL_ENDED],  # type: ignore[misc]
    "start_from": [lambda trial: trial.start_from("a-checkpoint"), lambda trial: trial.start_from(None)],
}


def table() -> dict[str, dict[TrialState, set[str]]]:
    """Return the new states by transition and state, from the table in ARCHITECTURE.md."""
    text = (SOURCE.parents[1] / "ARCHITECTURE.md").read_text()
    found: dict[str, dict[TrialState, set[str]]] = {}
    _, _, section = text.partition("### The states of a trial")
    for line in section.partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and (name := re.fullmatch(r"`(\w+)`", cells[0])):
            for state in STATES:
                if state in cells[1].split(", "):
                    found.setdefault(name[1], {})[state] = set(cells[2].split(", "))
    return found


def trial_in(state: TrialState, trial_id: int = 1) -> tuple[LiveTrial, list[TrialChange]]:
    """Return a trial that reached a state by transitions, and their changes."""
    spec = TrialSpec(trial_id, 0, "a", {}, seed=0, bracket=0, rungs=(16.0, 32.0))
    trial = LiveTrial(spec, RowValues("QUEUED", goal=16.0))
    if state == "QUEUED":
        return trial, []
    if state == "PAUSED":
        return trial, [trial.suspend()]
    changes = [trial.start(TrialProcess("1.a.1"))]
    if state == "STOPPING":
        changes.append(trial.request_stop("stop"))
    elif state != "RUNNING":
        exit_processes(trial)
        changes.append(trial.end(state))
    return trial, changes


def exit_processes(trial: LiveTrial) -> None:
    if trial.process is not None:
        trial.exited(lost=False, without_report=None, repeated_error=None)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened() as store:
        yield store


def new_trial(store: Store, number: int) -> tuple[Callable[[TrialChange], Any], int]:
    """Create an experiment with one trial; return a function that commits changes of it, and the trial's id."""
    experiment = store.experiments.create(
        NewExperiment(f"key-{number}", "x", "", [], {}, "", 0, "", "owner", 0.0, True, "loss", True)
    )
    lease = store.experiments.acquire(experiment, this_process())
    new = NewTrial(0, "a", {}, seed=0, goal=16.0, rungs=[16.0, 32.0], bracket=0, source_checkpoint_id=None, created=0.0)
    (trial_id,) = store.experiments.commit(lease, Change(new_trials=(new,)))
    return lambda change: store.experiments.commit(lease, Change(trials=(change,))), trial_id


def test_every_transition_is_in_the_table() -> None:
    returning = {
        name
        for name, method in inspect.getmembers(LiveTrial, inspect.isfunction)
        if method.__annotations__.get("return") == "TrialChange" and not name.startswith("_")
    }
    assert returning == set(CALLS) == set(table())


@pytest.mark.parametrize("name", CALLS)
def test_transitions_are_those_of_the_table(name: str, store: Store) -> None:
    """Each new state of the table is reached, the row agrees with the trial, and every other transition is refused."""
    allowed = table()[name]
    for number, state in enumerate(STATES):
        reached = set()
        for variant, call in enumerate(CALLS[name]):
            commit, trial_id = new_trial(store, 100 * number + variant)
            trial, changes = trial_in(state, trial_id)
            if name in ("requeue", "end"):
                exit_processes(trial)
            if state not in allowed:
                before = (trial.state, trial.goal, trial.source_checkpoint_id, trial.runs, trial.restarts)
                with pytest.raises(RuntimeError, match=f"trial {trial_id} is {state}"):
                    call(trial)
                assert (trial.state, trial.goal, trial.source_checkpoint_id, trial.runs, trial.restarts) == before
                continue
            changes.append(call(trial))
            reached.add(trial.state)
            for change in changes:
                commit(change)
            row = store.experiments.trial(trial_id)
            assert (row.state, row.goal, row.source_checkpoint_id, row.runs, row.restarts) == (
                trial.state,
                trial.goal,
                trial.source_checkpoint_id,
                trial.runs,
                trial.restarts,
            )
            assert (row.ended is not None) == trial.has_ended
        assert reached == allowed.get(state, set())


@pytest.mark.parametrize("name", ["requeue", "end"])
def test_a_trial_with_processes_does_not_wait_or_end(name: str) -> None:
    trial, _ = trial_in("RUNNING")
    for call in CALLS[name]:
        with pytest.raises(AssertionError):
            call(trial)


def test_a_restart_that_is_not_made_is_not_counted() -> None:
    trial, _ = trial_in("RUNNING")
    exit_processes(trial)
    trial.requeue(paused=False, restarts=1)
    assert trial.restarts == 1
    assert trial.end("CANCELED").restarts == trial.restarts == 0
    started, _ = trial_in("RUNNING")
    exit_processes(started)
    started.requeue(paused=False, restarts=1)
    started.start(TrialProcess("1.a.2"))
    exit_processes(started)
    assert started.end("ERROR").restarts == started.restarts == 1


def test_a_request_that_was_made_before_is_kept() -> None:
    """A user's cancel is not replaced by a decision of the searcher, and a result at the goal blocks a start."""
    trial, _ = trial_in("RUNNING")
    trial.request_stop("cancel")
    trial.suspend()
    assert trial.process is not None
    assert trial.process.stopping.request == "cancel"
    assert trial.suspended
    trial.observed.note_result(Result(1.0, 16.0), 1.0, is_at_goal=True)
    exit_processes(trial)
    trial.requeue(paused=True)
    trial.continue_to(32.0)
    assert not trial.may_start
    assert trial.observed.take_result() == Result(1.0, 16.0)
    assert trial.may_start


# Which modules may assign the fields of the parts of a trial.
OWNERS: dict[type, set[str]] = {
    Observed: {"observed.py"},
    LogFindings: {"process.py", "logs.py"},
    Activity: {"process.py", "timeouts.py"},
    ComparisonWait: {"trial_values.py"},
}
PRIVATE = {name for name in vars(trial_in("QUEUED")[0]) if name.startswith("_")} | {"_stopping"}


def test_no_other_module_changes_a_trial() -> None:
    """The state is private, and its properties cannot be assigned; the other parts have one owner each."""
    wrong = []
    for path in RUNNER.rglob("*.py"):
        allowed = {part.name for owner, names in OWNERS.items() if path.name in names for part in fields(owner)}
        guarded = {part.name for owner in OWNERS for part in fields(owner)} - allowed
        for node in ast.walk(ast.parse(path.read_text())):
            is_attribute = isinstance(node, ast.Attribute) and not (
                isinstance(node.value, ast.Name) and node.value.id == "self"
            )
            if is_attribute and isinstance(node, ast.Attribute):
                is_assigned = isinstance(node.ctx, ast.Store) and node.attr in guarded
                if is_assigned or node.attr in PRIVATE:
                    wrong.append(f"{path.name}:{node.lineno} {ast.unparse(node)}")
            elif (
                isinstance(node, ast.Call) and ast.unparse(node.func) == "TrialChange" and path.name != "live_trial.py"
            ):
                wrong.append(f"{path.name}:{node.lineno} makes a TrialChange")
    assert wrong == []


ASHA = {"name": "adaptive_asha", "max_trials": 4, "max_time": 8, "time_metric": "batches", "divisor": 2}


@pytest.mark.parametrize(
    ("searcher", "batches", "after_resuming"),
    [(ASHA, 8, {"COMPLETED"}), ({"name": "random", "max_trials": 6}, 20, {"QUEUED", "COMPLETED"})],
    ids=["compared", "queued"],
)
def test_rows_and_memory_agree_at_every_moment(
    searcher: dict[str, Any], batches: int, after_resuming: set[str]
) -> None:
    """A search is paused in the middle and resumed: in every view the rows agree with what the runner shows."""
    config = {
        "name": "agreeing",
        "entrypoint": f"python3 train.py 0.1 {batches}",
        "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}},
        "searcher": {"metric": "loss", **searcher},
        "reproducibility": {"experiment_seed": 5},
    }
    seen: dict[bool, set[str]] = {False: set(), True: set()}  # states before and after the pause
    is_resumed = is_requested = False
    with LocalEngine(2) as engine, opened() as store:
        experiment = create(engine, "steady", config)

        def compare(view: View) -> None:
            nonlocal is_requested
            shown = {trial.id: (trial.state, trial.goal, trial.restarts, trial.has_started) for trial in view.trials}
            rows = store.experiments.trials(experiment)
            assert {row.id: (row.state, row.goal, row.restarts, row.runs > 0) for row in rows} == shown
            seen[is_resumed].update(state for state, *_ in shown.values())
            if not is_requested and any(trial.state == "RUNNING" for trial in view.trials):
                is_requested = True
                store.experiments.request(experiment, "pause")

        assert run_experiment(checked_place(), experiment, engine=engine, observer=compare).state == "PAUSED"
        is_resumed = True
        assert run_experiment(checked_place(), experiment, engine=engine, observer=compare).state == "COMPLETED"
    assert {"RUNNING", "PAUSED"} <= seen[False]
    assert after_resuming <= seen[True]
    assert outcome(experiment).experiment.state == "COMPLETED"


def test_views_have_the_times_of_starts_and_ends(tmp_path: Path) -> None:
    """Trials that are shorter than the time between two views: their starts are not shown as late as their ends."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "train.py").write_text("")
    config = {
        "name": "short",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}},
        "searcher": {"name": "random", "metric": "loss", "max_trials": 4},
    }
    views: list[View] = []
    with LocalEngine(2) as engine:
        experiment = create(engine, tmp_path / "model", config)
        assert run_experiment(checked_place(), experiment, engine=engine, observer=views.append).state == "COMPLETED"
    last = views[-1]
    assert [trial.state for trial in last.trials] == ["COMPLETED"] * 4
    times = [(trial.started_at or -1.0, trial.state_since or -1.0) for trial in last.trials]
    assert all(0.0 <= started < ended <= last.seconds for started, ended in times)
    assert [started for started, _ in times] == sorted(started for started, _ in times)
    assert times[1][0] < times[0][1], "the second trial starts before the first ends: there are two slots"


def test_a_canceled_trial_stays_canceled_when_the_search_is_extended() -> None:
    """Without a runner nothing reports the cancel to the searcher, which still counts on these trials."""
    searcher = {"name": "async_halving", "num_rungs": 2, "divisor": 2, "max_time": 4, "time_metric": "batches"}
    config = {
        "name": "extended",
        "entrypoint": "python3 train.py 0.1 4",
        "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}},
        "searcher": {"metric": "loss", **searcher, "max_trials": 6, "stop_once": False},
        "reproducibility": {"experiment_seed": 5},
    }
    with LocalEngine(1) as engine, opened() as store:
        experiment = create(engine, "steady", config)

        def pause(view: View) -> None:
            # Views are a moment apart: a second trial can pause before the first is seen.
            if any(trial.state == "PAUSED" for trial in view.trials):
                store.experiments.request(experiment, "pause")

        assert run_experiment(checked_place(), experiment, engine=engine, observer=pause).state == "PAUSED"
        request(store, experiment, "cancel")
        canceled = [(row.id, row.state, row.runs) for row in store.experiments.trials(experiment)]
        assert {state for _, state, _ in canceled} <= set(TRIAL_ENDED)
        assert run_experiment(checked_place(), experiment, engine=engine, max_trials=10).state == "COMPLETED"
        rows = store.experiments.trials(experiment)
    assert [(row.id, row.state, row.runs) for row in rows[: len(canceled)]] == canceled
    assert len(rows) == 10
