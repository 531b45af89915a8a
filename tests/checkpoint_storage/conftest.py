"""A bucket on a real S3 server, started once for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.s3_server import S3Server


@pytest.fixture(scope="session")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def server(running_server: S3Server) -> S3Server:
    """Return the server with an empty bucket."""
    running_server.clear()
    return running_server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[S3Server]:
    """Return a server that the test may kill."""
    with S3Server(tmp_path) as server:
        yield server
