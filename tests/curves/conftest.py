"""Stores of both kinds, as in the tests of the store."""

from __future__ import annotations

from tests.store.conftest import place, postgres, postgres_stores, sqlite_stores, store

__all__ = ["place", "postgres", "postgres_stores", "sqlite_stores", "store"]
