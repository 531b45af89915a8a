"""The recorded reasons of the decisions of searches with real trials."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from determined.engines.local import LocalEngine
from determined.experiment.files import ExperimentFiles
from determined.experiment.runner.run import run_experiment
from determined.experiment.search_decisions import SearchDecisions, SearchHistory, search_decisions
from determined.store.experiment_records import JournalEntry
from determined.store.open import checked_place
from determined.store.store import Store
from tests.cli.det_command import DET
from tests.experiment.inside import Outcome, opened, run
from tests.web.server import running_server

HALVING = {"max_trials": 8, "time_metric": "batches", "max_time": 8, "divisor": 2}


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(2) as made:
        yield made


def config(searcher: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "name": "decisions",
        "entrypoint": "python3 train.py 0.01 8",
        "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}},
        "searcher": {"metric": "loss", **searcher},
        "reproducibility": {"experiment_seed": 21},
        "max_restarts": 0,
        **fields,
    }


def of(found: Outcome) -> SearchDecisions:
    with opened() as store:
        return search_decisions(store, found.experiment.id)


def kinds(found: SearchDecisions, trial_id: int) -> list[str]:
    return [decision.kind for decision in found.decisions if decision.trial_id == trial_id]


def test_halving(engine: LocalEngine) -> None:
    outcome = run(engine, "steady", config({"name": "async_halving", "num_rungs": 3, **HALVING}))
    found = of(outcome)
    assert (found.method, found.time_metric, found.rungs) == ("async_halving", "batches", [[2.0, 4.0, 8.0]])
    assert found.problem is None
    for trial in outcome.trials:
        expected = {"COMPLETED": "completed", "STOPPED_EARLY": "stopped"}[trial.state]
        assert kinds(found, trial.id) == ["created", *["promoted"] * (len(kinds(found, trial.id)) - 2), expected]
    first = next(decision for decision in found.decisions if decision.trial_id == outcome.trials[0].id)
    assert first.text == "created, first compared at batch 2"
    compared = [decision for decision in found.decisions if decision.place is not None]
    for decision in compared:
        number = next(trial.number for trial in outcome.trials if trial.id == decision.trial_id)
        reported = outcome.validations[number][round(decision.time or 0) - 1]["loss"]
        assert decision.metric == reported
        assert decision.text.startswith(f"batch {decision.time:g}: {reported:.6g}, ")
        after = "the last one" if decision.kind == "completed" else "top "
        assert f" of {decision.of} at rung {decision.rung}, {after}" in decision.text
        assert decision.text.split(": ")[-1].startswith(decision.kind)
    assert any(decision.kind == "stopped" for decision in compared)
    # The first trial at the first rung is the best so far, with any metric.
    at_first = next(decision for decision in compared if decision.rung == 1)
    assert (at_first.kind, at_first.place, at_first.of) == ("promoted", 1, 1)
    assert at_first.text.endswith(", 1st of 1 at rung 1, top 1 promoted: promoted, trains to batch 4")


def test_promotion_explains_late_promotions_and_closed_rungs(engine: LocalEngine) -> None:
    searcher = {"name": "async_halving", "num_rungs": 2, "stop_once": False, **HALVING}
    outcome = run(engine, "steady", config(searcher))
    found = of(outcome)
    assert found.problem is None
    paused = {decision.trial_id for decision in found.decisions if decision.kind == "paused"}
    promoted = [decision for decision in found.decisions if decision.kind == "promoted"]
    assert any(decision.trial_id in paused for decision in promoted)
    assert all(decision.place is not None and " at rung 1, top " in decision.text for decision in promoted)
    stopped = [decision.text for decision in found.decisions if decision.kind == "stopped"]
    assert stopped
    assert set(stopped) == {"no more trials can reach its rung, and it is not among the best there: stopped"}


def test_population(engine: LocalEngine) -> None:
    rounds = {"population_size": 4, "num_rounds": 2, "length_per_round": 2, "time_metric": "batches"}
    searcher = {"name": "pbt", **rounds, "replace_function": {"truncate_fraction": 0.25}}
    outcome = run(engine, "steady", config(searcher))
    found = of(outcome)
    assert found.problem is None
    copies = [decision for decision in found.decisions if decision.kind == "copied"]
    sources = {trial.id for trial in outcome.trials}
    assert copies
    for decision in copies:
        words = decision.text.split()
        assert words[:5] == ["created", "as", "a", "copy", "of"]
        assert int(words[6]) in sources - {decision.trial_id}
    replaced = next(decision for decision in found.decisions if decision.kind == "stopped")
    assert replaced.text.endswith(" 4th of 4 at round 1, top 3 continue: stopped")
    continued = [decision for decision in found.decisions if decision.kind == "continued"]
    assert {decision.rung for decision in continued} == {1}


@pytest.mark.parametrize("name", ["single", "random", "grid"])
def test_methods_that_compare_nothing(engine: LocalEngine, name: str) -> None:
    fields: dict[str, Any] = {"max_trials": 2} if name == "random" else {}
    space: dict[str, Any] = {"lr": {"type": "categorical", "vals": [0.1, 0.2]} if name != "single" else 0.5}
    outcome = run(engine, "steady", config({"name": name, **fields}, hyperparameters=space))
    found = of(outcome)
    assert found.problem is None
    for trial in outcome.trials:
        assert [d.text for d in found.decisions if d.trial_id == trial.id] == ["created", "ended by itself"]


def test_a_failed_and_a_refused_trial(engine: LocalEngine) -> None:
    outcome = run(
        engine, "steady", config({"name": "single"}, entrypoint="python3 -c 'raise SystemExit(3)'", hyperparameters={})
    )
    assert [decision.kind for decision in of(outcome).decisions] == ["created", "failed"]


def test_extending_a_search_is_a_decision_of_the_user(engine: LocalEngine) -> None:
    outcome = run(engine, "steady", config({"name": "random", "max_trials": 1}))
    run_experiment(checked_place(), outcome.experiment.id, engine=engine, max_trials=2)
    texts = [decision.text for decision in of(outcome).decisions]
    assert texts == ["created", "ended by itself", "extended by the user to 2 trials", "created", "ended by itself"]


def test_a_replay_that_disagrees_leaves_the_recorded_decisions(engine: LocalEngine) -> None:
    outcome = run(engine, "steady", config({"name": "async_halving", "num_rungs": 3, **HALVING}))
    before = of(outcome)
    files = ExperimentFiles.for_key(outcome.experiment.key)
    changed = files.read_config()
    changed["searcher"]["smaller_is_better"] = not changed["searcher"]["smaller_is_better"]
    files.write_config(changed)
    found = of(outcome)
    assert found.problem is not None
    assert "replaying the search gives others" in found.problem
    # Without a comparison a promotion cannot be distinguished from another continuation.
    recorded = [(d.sequence, d.kind.replace("promoted", "continued"), d.trial_id) for d in before.decisions]
    assert [(d.sequence, d.kind.replace("promoted", "continued"), d.trial_id) for d in found.decisions] == recorded
    unexplained = [d for d in found.decisions if d.kind == "stopped" and d.place is None]
    assert unexplained
    assert all(d.text.endswith(": stopped") and "rung" not in d.text for d in unexplained)


def test_a_missing_package_leaves_the_recorded_decisions(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    outcome = run(engine, "steady", config({"name": "optuna", "max_trials": 2}))
    assert of(outcome).problem is None
    monkeypatch.setitem(sys.modules, "optuna", None)  # as in an environment without the package
    found = of(outcome)
    assert found.problem is not None
    assert "pip install" in found.problem
    assert [decision.kind for decision in found.decisions].count("created") == 2


def without_package(name: str, directory: Path) -> dict[str, str]:
    """The environment of a process in which a package is not installed."""
    finder = f"""
import sys

class Hidden:
    def find_spec(name, path=None, target=None):
        if name == {name!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden)
"""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(finder)
    return {**os.environ, "PYTHONPATH": str(directory)}


def test_a_package_that_is_imported_late_is_named(engine: LocalEngine, tmp_path: Path) -> None:
    """Optuna's sampler imports its package when it proposes the second trial."""
    pytest.importorskip("cmaes")
    space = {name: {"type": "double", "minval": 0.1, "maxval": 1.0} for name in ("lr", "momentum")}
    searcher = {"name": "optuna", "sampler": "cmaes", "max_trials": 3, "max_concurrent_trials": 1}
    outcome = run(engine, "steady", config(searcher, hyperparameters=space))
    assert of(outcome).problem is None
    env = without_package("cmaes", tmp_path / "hidden")
    command = [*DET, "experiment", "decisions", str(outcome.experiment.id), "--json"]
    shown = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr
    said = json.loads(shown.stdout)
    static = tmp_path / "static"
    static.mkdir()
    (static / "index.html").write_text("<!doctype html>")
    with running_server(static, env) as server:
        answer = server.get(f"/api/experiments/{outcome.experiment.id}/decisions")
    for problem in (said["problem"], answer["problem"]):
        assert problem.endswith("the search cannot be replayed: the package cmaes is missing: pip install cmaes")
    assert [one["kind"] for one in said["decisions"]] == [one["action"] for one in answer["decisions"]]
    assert [one["kind"] for one in said["decisions"]] == ["created", "completed"] * 3


def test_files_on_another_machine(engine: LocalEngine) -> None:
    outcome = run(engine, "steady", config({"name": "async_halving", "num_rungs": 3, **HALVING}))
    before = of(outcome)
    files = ExperimentFiles.for_key(outcome.experiment.key)
    files.root.rename(files.root.with_name("elsewhere"))
    assert of(outcome) == before
    assert not files.root.exists()


def test_a_history_that_is_updated_is_that_of_a_new_replay(engine: LocalEngine) -> None:
    """Of two searches, after every entry of their journals, and after they are replaced by one another."""
    adaptive = {"name": "adaptive_asha", "max_time": 8, "max_trials": 6, "time_metric": "batches", "divisor": 2}
    searchers = [adaptive, {"name": "async_halving", "num_rungs": 3, **HALVING}]
    found = [run(engine, "steady", config(searcher)).experiment.id for searcher in searchers]
    history = SearchHistory()
    with opened() as store:
        journals = {number: store.experiments.journal(number) for number in found}
        for number in (*found, found[0]):
            entries = journals[number]
            for length in (*range(len(entries) + 1), len(entries) // 2):
                with journal_of(store, number, entries[:length]):
                    assert history.update(store, number) == search_decisions(store, number)
        assert len(search_decisions(store, found[0]).rungs) > 1  # the brackets are not all known at the beginning


def test_a_history_notices_a_journal_that_went_on_differently(engine: LocalEngine) -> None:
    """As in a copy of the store that replaces it: the search went on there, and has as many entries."""
    number = run(engine, "steady", config({"name": "async_halving", "num_rungs": 3, **HALVING})).experiment.id
    history = SearchHistory()
    with opened() as store:
        entries = store.experiments.journal(number)
        history.update(store, number)
        place = next(index for index, entry in enumerate(entries) if entry.event["event"] == "validated")
        event = {**entries[place].event, "metric": 77.5}
        with journal_of(store, number, [*entries[:place], entries[place]._replace(event=event), *entries[place + 1 :]]):
            changed = history.update(store, number)
            assert changed == search_decisions(store, number)
        assert any(decision.metric == 77.5 for decision in changed.decisions)


@contextmanager
def journal_of(store: Store, number: int, entries: Sequence[JournalEntry]) -> Iterator[None]:
    """The journal of an experiment holds these entries within the block."""
    before = store.experiments.journal(number)

    def write(rows: Sequence[JournalEntry]) -> None:
        store._database.execute("DELETE FROM journal WHERE experiment_id = ?", [number])
        for row in rows:
            values = [number, row.sequence, json.dumps(row.event), json.dumps(row.actions)]
            store._database.execute(
                "INSERT INTO journal (experiment_id, sequence, event, actions) VALUES (?, ?, ?, ?)", values
            )

    write(entries)
    try:
        yield
    finally:
        write(before)


def test_decisions_are_plain_data(engine: LocalEngine) -> None:
    from dataclasses import asdict

    outcome = run(engine, "steady", config({"name": "random", "max_trials": 1}))
    json.dumps(asdict(of(outcome)), allow_nan=False)
