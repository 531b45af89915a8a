"""Stores of both kinds, empty at the beginning of each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from determined.store.open import open_store
from determined.store.store import Store
from tests.helpers.postgres import PostgresServer, running_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def empty_databases() -> list[str]:
    """Of tests that are over: to empty one takes less time than to make one."""
    return []


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, empty_databases: list[str]) -> Iterator[str]:
    """What names an empty store."""
    if request.param == "sqlite":
        yield str(tmp_path / "store.sqlite")
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = empty_databases.pop() if empty_databases else server.new_database()
    yield url
    _empty(url)
    empty_databases.append(url)


def _empty(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.execute("DROP SCHEMA IF EXISTS determined CASCADE")


@pytest.fixture
def store(place: str) -> Iterator[Store]:
    opened = open_store(place)
    yield opened
    opened.close()
