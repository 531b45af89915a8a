"""The how-to pages: each is followed from its first line to its last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.docs.following import follow
from tests.docs.test_tutorial import INSTALLED
from tests.helpers.postgres import running_server
from tests.helpers.searches import end_processes

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "how-to").glob("*.md"))
LONG = ("distributed", "share")  # start interpreters, a server; the tests of these parts are faster
SERVER = "postgresql://me:secret@db.example.com/lab"
FOLLOWED = [
    pytest.param(page, marks=pytest.mark.thorough if page.stem in LONG else (), id=page.stem)
    for page in PAGES
    if "```sh" in page.read_text()  # others are one program: test_pages runs it
]


@pytest.mark.parametrize("page", FOLLOWED)
def test_the_page_works_as_it_is_written(page: Path, tmp_path: Path, data_home: Path) -> None:
    before, found, after = page.read_text().partition(INSTALLED)
    text = after if found else before
    with _database() if SERVER in text else nullcontext(SERVER) as database:
        follow(text.replace(SERVER, database), tmp_path / "reader")
        end_processes(data_home)  # the daemon of a page that uses the queue


@contextmanager
def _database() -> Iterator[str]:
    with running_server() as server:
        yield server.new_database()
