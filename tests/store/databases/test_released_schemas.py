"""A store of every earlier schema can be opened, with all its rows; the schemas are stored here as SQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from determined.store.databases.schema import MIGRATIONS, VERSION_TABLE
from determined.store.maintenance.check import check_store
from determined.store.open import open_store

RELEASED = sorted((Path(__file__).parents[1] / "released").glob("schema_*.sql"))


def test_none_is_missing() -> None:
    assert {path.name for path in RELEASED} == {f"schema_{number}.sql" for number in range(1, len(MIGRATIONS) + 1)}


@pytest.mark.parametrize("dump", RELEASED, ids=lambda path: path.stem)
def test_it_opens(dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "old.sqlite"
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript(dump.read_text())
    store = open_store(place)
    newest, oldest = store.experiments.list()
    assert [(row.id, row.name, row.is_standalone) for row in (oldest, newest)] == [
        (1, "old", True),
        (2, "other.py", True),
    ]
    assert [(row.steps_completed, row.rank) for row in store.metrics(1, archived=True)] == [(5, 0), (6, 0)]
    assert [row.checkpoint_id for row in store.checkpoints(1)] == ["c"]
    assert [line.text for line in store.logs(1)] == ["hello"]
    assert all(version.changes and version.rewrites for version in store.reports.versions([1, 2]))
    store.close()
    with closing(sqlite3.connect(place)) as connection:
        assert connection.execute(f"SELECT version FROM {VERSION_TABLE}").fetchall() == [(len(MIGRATIONS),)]
    monkeypatch.setenv("DET_STORE", str(place))
    assert check_store(lambda what: None)[1] == []
