"""Stores of both kinds, as in the tests of the store."""

from __future__ import annotations

from tests.store.conftest import empty_databases, place, postgres, store

__all__ = ["empty_databases", "place", "postgres", "store"]
