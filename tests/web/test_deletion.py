"""An experiment that is deleted while a request reads it is shown as it was, or not found; no answer is an error."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from determined.experiment.code import reading as code_reading
from determined.experiment.deletion import delete_experiment
from determined.experiment.files import ExperimentFiles
from determined.store.databases.postgres import PostgresDatabase
from determined.store.databases.sqlite import SqliteDatabase
from determined.store.experiment_changes import Change, ExperimentChange, TrialChange
from determined.store.rows import EndRow, LogRow
from determined.store.store import Store
from determined.web.api import compare
from determined.web.openapi import document
from tests.store.experiments import begin_managed, with_trials
from tests.store.rows import checkpoint, metric
from tests.web.site import Site

PATHS = [
    "/api/trials?metric=training/loss",
    "/api/trials?experiment={experiment}",
    "/api/trials/{trial}",
    "/api/experiments",
    "/api/experiments/{experiment}",
    "/api/experiments/{experiment}/checkpoints",
    "/api/trials/{trial}/checkpoints",
    "/api/experiments/{experiment}/code",
    "/api/experiments/{experiment}/decisions",
    "/api/metrics",
    "/api/metrics?experiment={experiment}",
    "/api/curves?trials={trial}&key=training/loss",
    "/api/trials/{trial}/profile?key=gpu/load",
    "/api/trials/{trial}/moment?key=training/loss&x=1",
    "/api/logs?experiment={experiment}",
    "/api/experiments/{experiment}/log",
    "/api/trials/{trial}/log",
    "/api/compare?trials={trial}",
    "/api/failures",
    "/api/failures?experiment={experiment}",
    "/api/queue",
]


def ended_experiment(store: Store) -> tuple[int, int]:
    """Create an experiment with reports, a checkpoint and log lines, and a failed trial."""
    lease, (first, second) = with_trials(store, 2)
    attempt = begin_managed(store, lease, first)
    rows: list[Any] = [metric(attempt, "training", step, {"loss": 1.0}) for step in (1, 2)]
    rows += [checkpoint(attempt, 2, f"saved-{first}"), LogRow(first, 1, 0, 0, "stdout", "line", 3.0, None)]
    store.write([*rows, EndRow(first, 1, "completed", 5.0, 1.0)])
    failed = TrialChange(second, state="ERROR", reason="ValueError: no", ended=5.0)
    change = ExperimentChange(state="COMPLETED", ended=6.0)
    store.experiments.commit(
        lease, Change(trials=(failed, TrialChange(first, state="COMPLETED", ended=5.0)), experiment=change)
    )
    store.experiments.release(lease)
    return lease.experiment_id, first


@pytest.fixture
def after_statement(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], object]], list[str]]:
    """Calls a function after a connection for reading has executed N statements; returns the statements."""

    def install(number: int, act: Callable[[], object]) -> list[str]:
        executed: list[str] = []
        for kind in (SqliteDatabase, PostgresDatabase):
            original = ORIGINAL[kind]

            def execute(self: Any, statement: str, values: Any = (), original: Any = original) -> Any:
                found = original(self, statement, values)
                if self._read_only:
                    executed.append(statement)
                    if len(executed) == number:
                        act()
                return found

            monkeypatch.setattr(kind, "execute", execute)
        return executed

    return install


ORIGINAL: dict[Any, Any] = {kind: kind.execute for kind in (SqliteDatabase, PostgresDatabase)}


@pytest.mark.parametrize("path", PATHS)
def test_deleted_while_it_is_read(
    site: Site, store: Store, path: str, after_statement: Callable[[int, Callable[[], object]], list[str]]
) -> None:
    number = 0
    while True:
        number += 1
        experiment, trial = ended_experiment(store)
        executed = after_statement(number, partial(delete_experiment, store, experiment))
        answer = site.ask("GET", path.format(experiment=experiment, trial=trial), site.bearer)
        assert answer.status_code in (200, 404), (number, executed[number - 1], answer.text)
        if len(executed) < number:  # it was not deleted
            break
    assert number > 2


def test_all_routes_that_read_experiments_are_asked() -> None:
    asked = {re.sub(r"\{\w+\}", "", path.partition("?")[0]) for path in PATHS}
    routes = {re.sub(r"\{\w+\}", "", path) for path, methods in document()["paths"].items() if "get" in methods}
    # The poll reads no experiments, models are not deleted with one, and the others check files before any query.
    assert routes - asked == {
        "/api/changes",
        "/api/models",
        "/api/models/",
        "/api/experiments//code/file",
        "/api/experiments//code/diff",
        "/api/experiments//code/archive",
    }


def test_code_that_is_deleted_while_it_is_read(site: Site, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment, trial = ended_experiment(store)
    code = ExperimentFiles.for_key(store.experiments.get(experiment).key).code
    code.mkdir()
    (code / "model.py").write_text("x")
    listed = code_reading.list_files

    def list_and_delete(found: code_reading.Code) -> list[Any]:
        files = list(listed(found))
        shutil.rmtree(code)
        return files

    monkeypatch.setattr(compare, "list_files", list_and_delete)
    answer = site.ask("GET", f"/api/compare?trials={trial}", site.bearer)
    assert answer.status_code == 404
    assert "deleted" in answer.json()["hint"]


def test_an_answer_shows_one_state_of_the_store(
    site: Site, store: Store, after_statement: Callable[[int, Callable[[], object]], list[str]]
) -> None:
    for number in range(1, 12):
        experiment, _ = ended_experiment(store)
        after_statement(number, partial(delete_experiment, store, experiment))
        rows = site.get("/api/experiments")["rows"]
        assert {row["trials"] for row in rows} <= {2}
