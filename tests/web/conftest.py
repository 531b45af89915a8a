"""Stores of both kinds, and a server that shows one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.conftest import place, postgres, postgres_stores, sqlite_stores, store
from tests.web.site import Site

__all__ = ["place", "postgres", "postgres_stores", "site", "sqlite_stores", "static", "store"]


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """Return a minimal built page."""
    directory = tmp_path / "static"
    directory.mkdir()
    (directory / "index.html").write_text("<!doctype html><title>page</title>")
    (directory / "page.js").write_text("'use strict';")
    return directory


@pytest.fixture
def site(place: str, static: Path) -> Iterator[Site]:
    with Site(place, static) as opened:
        yield opened
