"""One database has one queue, however its URL is written."""

from __future__ import annotations

import pytest

from determined.errors import StoreError
from determined.queue.files import database_of

pytest.importorskip("psycopg")


def test_the_same_database_with_another_url(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGPORT", "PGUSER", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)
    same = [
        "postgresql://localhost/runs",
        "postgres://127.0.0.1:5432/runs",
        "postgresql://me:p%40ss@[::1]/runs?sslmode=disable",
        "postgresql:///runs?host=/var/run/postgresql",
        "postgresql:///runs?connect_timeout=3",
        "postgresql://runs@localhost",  # a database is named after its user unless it is named
    ]
    assert {database_of(url) for url in same} == {"localhost:5432/runs"}
    others = ["postgresql://localhost/other", "postgresql://localhost:5433/runs", "postgresql://db.lab/runs"]
    assert len({database_of(url) for url in [*same, *others]}) == 4


def test_a_url_that_cannot_be_read_keeps_its_password() -> None:
    with pytest.raises(StoreError, match="is invalid") as refused:
        database_of("postgresql://me:s3cr%zz@localhost/runs")
    assert "s3cr" not in str(refused.value)
