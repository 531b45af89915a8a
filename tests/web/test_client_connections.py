"""Clients that connect and do nothing, or send or read too slowly, do not prevent others from being served."""

from __future__ import annotations

import json
import resource
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import psutil
import pytest

from determined.store.open import checked_place, open_store
from determined.web.client_connections import MOST_CONNECTIONS
from tests.helpers.waiting import wait_until
from tests.store.rows import begin, metric
from tests.web.server import Server, running_server


def connected(server: Server) -> socket.socket:
    url = httpx.URL(server.url)
    return socket.create_connection((url.host, url.port or 0), timeout=60)


def open_connections(server: Server) -> int:
    found = psutil.Process(server.process.pid).net_connections("tcp")
    return sum(one.status == psutil.CONN_ESTABLISHED for one in found)


def is_closed(client: socket.socket) -> bool:
    """Return whether the server has closed a connection; nothing else was sent to it."""
    if not select.select([client], [], [], 0)[0]:
        return False
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def wait_for_end(client: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    read = b""
    try:
        while part := client.recv(65536):
            read += part
    except ConnectionResetError:
        pass
    return read


@contextmanager
def few_files(limit: int) -> Iterator[None]:
    """Limit the number of open files of processes that are started in this block."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_idle_connections_of_others_do_not_use_up_the_file_descriptors(static: Path) -> None:
    with ExitStack() as ending:
        with few_files(256):  # as on macOS
            server = ending.enter_context(running_server(static))
        clients = [ending.enter_context(connected(server)) for _ in range(400)]
        assert server.get("/api/changes")
        # The oldest were closed for the newer ones.
        wait_until(lambda: open_connections(server) <= MOST_CONNECTIONS)
        wait_until(lambda: is_closed(clients[0]))
        assert not is_closed(clients[-1])
        clients[-1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert wait_for_end(clients[-1]).startswith(b"HTTP/1.1 200")
        assert server.interrupt() == 0
        assert server.process.stderr is not None
        assert "Too many open files" not in server.process.stderr.read()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /api/changes HTTP/1.1\r\nHost: localhost\r\n",
        # The answer is sent before the body has arrived, which then never ends.
        b"POST /api/actions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET",
    ],
)
def test_a_connection_without_a_request_is_closed(static: Path, sent: bytes) -> None:
    with (
        running_server(static, limits={"client_connections.REQUEST_SECONDS": 0.5}) as server,
        connected(server) as client,
    ):
        client.sendall(sent)
        wait_for_end(client)
        wait_until(lambda: open_connections(server) == 0)


def test_single_bytes_do_not_extend_the_time_for_a_request(static: Path) -> None:
    with (
        running_server(static, limits={"client_connections.REQUEST_SECONDS": 0.5}) as server,
        connected(server) as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\nX: ")

        def ended() -> bool:
            try:
                client.send(b"x")
            except (ConnectionResetError, BrokenPipeError):
                return True
            return is_closed(client)

        wait_until(ended)


def test_a_client_that_does_not_read_its_answer_is_disconnected(static: Path) -> None:
    (static / "large.js").write_bytes(b"x" * 20_000_000)
    request = b"GET /static/large.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
    limits: dict[str, Any] = {"client_connections.REQUEST_SECONDS": 0.5, "client_connections.STALLED_SECONDS": 0.5}
    with running_server(static, limits=limits) as server, connected(server) as client:
        client.sendall(request)
        wait_until(lambda: open_connections(server) == 1)
        wait_until(lambda: open_connections(server) == 0)


def test_a_client_that_reads_slowly_gets_its_answer(static: Path) -> None:
    (static / "large.js").write_bytes(b"x" * 20_000_000)
    request = b"GET /static/large.js HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    limits: dict[str, Any] = {"client_connections.REQUEST_SECONDS": 0.2, "client_connections.STALLED_SECONDS": 2.0}
    with running_server(static, limits=limits) as server, connected(server) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.sendall(request)
        read = bytearray()
        while part := client.recv(4096):  # far less than arrives meanwhile
            read += part
        assert len(read.partition(b"\r\n\r\n")[2]) == 20_000_000


def test_long_names_of_metrics_arrive_in_parts(static: Path) -> None:
    names = [f"training/{letter * 5000}" for letter in "\u4e00\u4e8c\u4e09\u56db\u4e94\u516d"]
    store = open_store(checked_place())
    attempt = begin(store)
    store.write([metric(attempt, "training", 1, {name.partition("/")[2]: 1.0 for name in names})])
    store.close()
    query = urlencode([("metric", name) for name in names])
    assert len(query) > 256 * 1024  # asyncio reads no more at once, so that the request is incomplete at first
    with running_server(static) as server, connected(server) as client:
        head = f"Host: localhost\r\nAuthorization: Bearer {server.token}\r\nConnection: close\r\n\r\n"
        client.sendall(f"GET /api/trials?{query} HTTP/1.1\r\n{head}".encode())
        answer = wait_for_end(client)
        assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
        (row,) = json.loads(answer.partition(b"\r\n\r\n")[2])["rows"]
        assert {name: row["metrics"][name]["last"] for name in names} == dict.fromkeys(names, 1.0)


def test_a_request_without_an_end_is_refused(static: Path) -> None:
    with running_server(static) as server, connected(server) as client:
        start = b"GET /?"
        client.sendall(start + b"x" * (2**19 + 1 - len(start)))  # no more: unread bytes would reset the connection
        assert wait_for_end(client).startswith(b"HTTP/1.1 400")


def test_requests_on_one_connection_are_answered_one_after_the_other(static: Path) -> None:
    with (
        running_server(static, limits={"client_connections.REQUEST_SECONDS": 5.0}) as server,
        connected(server) as client,
    ):
        request = b"GET /static/page.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        client.sendall(request * 5 + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert wait_for_end(client).count(b"HTTP/1.1 200") == 6
