"""Fixtures for searches whose processes are ended with the test, also if it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import warm
from tests.helpers.searches import Search, end_processes

MakeSearch = Callable[..., Search]
MODELS = Path(__file__).parent / "models"


@pytest.fixture(scope="package", autouse=True)
def warm_children() -> Iterator[None]:
    """Fork the daemons and engines that this process starts, so that they do not import torch again."""
    with warm.children():
        yield


@pytest.fixture
def make_search(tmp_path: Path) -> Iterator[MakeSearch]:
    """Return the function make_search("linear", config, slots=1); each search has a separate data directory."""
    made: list[Search] = []

    def make(model: str, config: dict[str, Any], **fields: Any) -> Search:
        search = Search(tmp_path / f"search-{len(made)}", MODELS / model, config, **fields)
        search.home.mkdir()
        made.append(search)
        return search

    yield make
    for search in made:
        end_processes(search.home)
