"""The how-to pages, each followed from its first line to its last."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.following import follow
from tests.docs.test_tutorial import INSTALLED

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "how-to").glob("*.md"))
LONG = ("distributed",)  # starts interpreters; in short, the tutorial does the same
FOLLOWED = [
    pytest.param(page, marks=pytest.mark.thorough if page.stem in LONG else (), id=page.stem)
    for page in PAGES
    if "```sh" in page.read_text()  # others are one program: test_pages runs it
]


@pytest.mark.parametrize("page", FOLLOWED)
def test_the_page_works_as_it_is_written(page: Path, tmp_path: Path) -> None:
    before, found, after = page.read_text().partition(INSTALLED)
    follow(after if found else before, tmp_path / "reader")
