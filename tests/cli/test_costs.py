"""Costs of commands: they read and load no more lines, rows and modules than their answer needs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from determined.cli.logs import _Reader
from determined.store import open as opening
from determined.store.databases.sqlite import SqliteDatabase
from determined.store.records import LogFilter
from determined.store.rows import LogRow
from determined.store.store import Store
from tests.cli.det_command import det_json, det_ok
from tests.cli.filling import Steps, add_trials, lead, new_experiment, work

LINES: list[tuple[int, str | None, str]] = [
    (0, None, f"line {number}" + (" with a needle" if number % 50 == 7 else "")) for number in range(1500)
]


class Queries:
    """The statements that were executed, with their values and the number of rows that they returned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.all: list[tuple[str, list[Any], int]] = []
        execute = SqliteDatabase.execute

        def counting(database: SqliteDatabase, statement: str, values: Any = ()) -> list[tuple[Any, ...]]:
            found = execute(database, statement, values)
            self.all.append((statement, list(values), len(found)))
            return found

        monkeypatch.setattr(SqliteDatabase, "execute", counting)

    def of(self, table: str) -> list[tuple[str, list[Any], int]]:
        return [query for query in self.all if f"FROM {table}" in query[0]]


@pytest.fixture
def trial(store: Store) -> int:
    lease = lead(store, new_experiment(store))
    (trial_id,) = add_trials(store, lease, [{}])
    reports = [(step, {"loss": 1 / step}) for step in range(1, 21)]
    work(store, lease, trial_id, Steps(training=reports, validation=reports, lines=LINES))
    return trial_id


def test_the_database_searches_the_log(trial: int, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = Queries(monkeypatch)
    assert det_ok_lines("--search", "needle") == 30
    assert sum(rows for statement, _, rows in queries.of("logs") if "body" in statement) == 30
    queries.all.clear()
    assert det_ok_lines("--search", "needle", "--tail", "2") == 2
    assert det_ok_lines("--search", "needle", "--head", "2") == 2
    assert sum(rows for statement, _, rows in queries.of("logs") if "body" in statement) <= 6


def det_ok_lines(*arguments: str) -> int:
    return len(det_json_lines("trial", "logs", "1", *arguments))


def det_json_lines(*arguments: str) -> list[Any]:
    return [json.loads(line) for line in det_ok(*arguments, "--json").splitlines()]


def test_lines_that_are_not_wanted_are_searched_once(store: Store, trial: int, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = _Reader(store, lambda: [trial], LogFilter(text="needle"))
    assert len(list(reader.new_lines())) == 30
    queries, newest = Queries(monkeypatch), store.newest_log(trial)
    assert list(reader.new_lines()) == []
    assert [values[1] for statement, values, _ in queries.of("logs") if "body" in statement] == [newest]
    store.write([LogRow(trial, 1, 0, 5000, "stdout", "a needle again", 1_790_000_020.0)])
    assert [line.text for _, line in reader.new_lines()] == ["a needle again"]


def test_a_trial_is_described_with_one_store_and_without_the_sdk(trial: int, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    open_store = opening.open_store

    def counting(*given: Any) -> Store:
        opened.append(given)
        return open_store(*given)

    monkeypatch.setattr(opening, "open_store", counting)
    queries = Queries(monkeypatch)
    plain = det_json("trial", "describe", str(trial), "--metrics")
    assert plain["summary_metrics"]["validation"]["loss"]["count"] == 20
    assert len(opened) == 1
    assert sum(rows for statement, _, rows in queries.of("metrics") if "body" in statement) == 40

    program = (
        "import sys; from determined.cli.main import main\n"
        f"try: main(['trial', 'describe', '{trial}'])\n"
        "except SystemExit as stop: assert stop.code == 0\n"
        "print([name for name in sys.modules if name.startswith('determined.experimental')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.strip() == "[]"


# The modules of `determined.store` that `det experiment list` needs, on a store in a file.
NEEDED_BY_A_LIST = {
    "determined.store",
    "determined.store.databases",
    "determined.store.databases.base",
    "determined.store.databases.location",
    "determined.store.databases.migrate",
    "determined.store.databases.read_only_file",
    "determined.store.databases.schema",
    "determined.store.databases.sqlite",
    "determined.store.databases.sqlite_errors",
    "determined.store.experiment_records",
    "determined.store.substores",
    "determined.store.substores.experiments",
    "determined.store.sql.leases",
    "determined.store.open",
    "determined.store.process",
    "determined.store.records",
    "determined.store.sql",
    "determined.store.sql.columns",
    "determined.store.sql.experiment_columns",
    "determined.store.sql.experiment_filter",
    "determined.store.sql.requests",
    "determined.store.standalone_runs",
    "determined.store.states",
    "determined.store.store",
}


def test_a_list_loads_nothing_of_the_store_that_it_does_not_need(trial: int) -> None:
    program = (
        "import json, sys; from determined.cli.main import main\n"
        "try: main(['experiment', 'list'])\n"
        "except SystemExit as stop: assert stop.code == 0\n"
        "print(json.dumps([name for name in sys.modules if name.startswith('determined.store')]), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert set(json.loads(done.stderr)) == NEEDED_BY_A_LIST


def test_a_store_opens_its_subjects_when_they_are_used(store: Store) -> None:
    other = opening.open_store(store.place)
    opened = set(vars(other))
    other.experiments.list()
    assert set(vars(other)) - opened == {"experiments"}
    other.close()
