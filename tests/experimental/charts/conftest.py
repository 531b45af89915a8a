"""Stores of both kinds, the SDK on one of them, and a minimal built page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from determined import built_page
from determined.experimental import Determined
from tests.store.conftest import place, postgres, postgres_stores, sqlite_stores, store

__all__ = ["place", "postgres", "postgres_stores", "sqlite_stores", "sdk", "static", "store"]


@pytest.fixture(scope="session")
def static(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a minimal page in the form of the real one, in its place."""
    directory = tmp_path_factory.mktemp("static")
    (directory / "index.html").write_text(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<link rel="stylesheet" href="/static/page.css">\n</head>\n<body>\n<div id="app"></div>\n'
        '<script src="/static/page.js"></script>\n</body>\n</html>\n'
    )
    (directory / "chart.js").write_text("const odd = '</script>' && \"quoted\";")
    (directory / "page.css").write_text("body { color: black }")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(built_page, "STATIC", directory)
        yield directory


@pytest.fixture
def sdk(place: str, static: Path) -> Iterator[Determined]:
    with Determined(place) as opened:
        yield opened
