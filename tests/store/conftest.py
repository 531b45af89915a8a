"""Stores of both kinds, empty at the beginning of each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from determined.store.open import open_store
from determined.store.store import Store
from tests.helpers.empty_stores import PostgresStores, SqliteStores
from tests.helpers.postgres import PostgresServer, running_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def sqlite_stores(tmp_path_factory: pytest.TempPathFactory) -> SqliteStores:
    return SqliteStores(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="session")
def postgres_stores(postgres: PostgresServer) -> PostgresStores:
    return PostgresStores(postgres)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the place of an empty store. The store has tables only if a fixture of the test opens it."""
    with_tables = not {"store", "site"}.isdisjoint(request.fixturenames)
    if request.param == "sqlite":
        path = tmp_path / "store.sqlite"
        if with_tables:
            sqlite_stores: SqliteStores = request.getfixturevalue("sqlite_stores")
            sqlite_stores.create(path)
        yield str(path)
        return
    postgres_stores: PostgresStores = request.getfixturevalue("postgres_stores")
    url = postgres_stores.take(with_tables=with_tables)
    yield url
    postgres_stores.give_back(url)


@pytest.fixture
def store(place: str) -> Iterator[Store]:
    opened = open_store(place)
    yield opened
    opened.close()
