"""The socket of a node's store relay: complete frames, answers to peers that read them, and peers that misbehave."""

from __future__ import annotations

import os
import selectors
import shutil
import socket
import stat
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from determined.engines.relay_socket import _MOST_UNREAD, RelaySocket
from determined.errors import EngineError
from determined.frames import LARGEST, FrameReader, framed
from tests.helpers.waiting import wait_until

Connect = Callable[[], socket.socket]


@pytest.fixture
def directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="det-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def relay(directory: Path) -> Iterator[RelaySocket]:
    made = RelaySocket(str(directory))
    yield made
    made.close()


@pytest.fixture
def connect(relay: RelaySocket) -> Iterator[Connect]:
    opened: list[socket.socket] = []

    def connected() -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(60)
        made.connect(relay.path)
        opened.append(made)
        return made

    yield connected
    for each in opened:
        each.close()


def next_requests(relay: RelaySocket, count: int = 1) -> list[tuple[int, bytes]]:
    """Wait for N requests as an engine does."""
    found: list[tuple[int, bytes]] = []
    with selectors.DefaultSelector() as selector:
        selector.register(relay, selectors.EVENT_READ)
        while len(found) < count:
            assert selector.select(60), f"only {found} arrived"
            found += relay.received()
    return found


def read(peer: socket.socket) -> bytes:
    reader = FrameReader()
    while True:
        data = peer.recv(1 << 16)
        assert data, "closed"
        for body in reader.feed(data):
            return body


def is_closed(relay: RelaySocket, peer: socket.socket) -> bool:
    """Return whether the relay has closed the connection, which it may notice in one of its next rounds."""
    assert relay.received() == []
    peer.setblocking(False)
    try:
        return peer.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_requests_and_answers(relay: RelaySocket, connect: Connect) -> None:
    first, second = connect(), connect()
    first.sendall(framed(b"one"))
    second.sendall(framed(b"two") + framed(b"three"))
    found = next_requests(relay, 3)
    assert sorted(body for _, body in found) == [b"one", b"three", b"two"]
    of_body = {body: number for number, body in found}
    assert of_body[b"two"] == of_body[b"three"] != of_body[b"one"]
    relay.send(of_body[b"two"], b"answer")
    relay.send(of_body[b"one"], b"another")
    assert (read(first), read(second)) == (b"another", b"answer")


def test_only_the_owner_of_the_directory_can_reach_it(relay: RelaySocket, directory: Path) -> None:
    assert relay.path == str(directory / "store")
    assert stat.S_ISSOCK(os.stat(relay.path).st_mode)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_request_that_arrives_in_pieces(relay: RelaySocket, connect: Connect) -> None:
    peer, other = connect(), connect()
    data = framed(b"x" * 1000)
    for piece in (data[:2], data[2:5], data[5:900]):
        peer.sendall(piece)
        other.sendall(framed(b"meanwhile"))
        assert [body for _, body in next_requests(relay)] == [b"meanwhile"]
    peer.sendall(data[900:])
    assert [body for _, body in next_requests(relay)] == [b"x" * 1000]


def test_a_repetition_on_a_new_connection_comes_after_what_was_sent_before(
    relay: RelaySocket, connect: Connect
) -> None:
    for _ in range(20):
        peer = connect()
        peer.sendall(framed(b"first"))
        peer.close()
        connect().sendall(framed(b"second"))
        assert [body for _, body in next_requests(relay, 2)] == [b"first", b"second"]


def test_the_number_of_a_connection_is_never_used_again(relay: RelaySocket, connect: Connect) -> None:
    numbers = []
    for _ in range(5):
        peer = connect()
        peer.sendall(framed(b"hello"))
        ((number, _),) = next_requests(relay)
        numbers.append(number)
        peer.close()
    assert len(set(numbers)) == 5
    relay.send(numbers[0], b"too late")  # no process is connected


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", struct.pack("!I", LARGEST + 1), struct.pack("!I", 0), b"\xff" * 100_000]
)
def test_garbage_closes_its_connection_only(relay: RelaySocket, connect: Connect, garbage: bytes) -> None:
    good, bad = connect(), connect()
    bad.sendall(garbage)
    wait_until(lambda: is_closed(relay, bad), "the connection is still open")
    good.sendall(framed(b"still here"))
    ((number, body),) = next_requests(relay)
    assert body == b"still here"
    relay.send(number, b"yes")
    assert read(good) == b"yes"


def test_a_cut_request_is_forgotten(relay: RelaySocket, connect: Connect) -> None:
    cut = connect()
    cut.sendall(framed(b"x" * 1000)[:500])
    cut.close()
    connect().sendall(framed(b"whole"))
    assert [body for _, body in next_requests(relay)] == [b"whole"]


def test_the_largest_request_and_answer(relay: RelaySocket, connect: Connect) -> None:
    body = b"x" * LARGEST
    peer = connect()
    # Sent by another process, because this one is the relay, which reads it in many rounds.
    child = os.fork()
    if child == 0:
        peer.sendall(framed(body))
        os._exit(0 if read(peer) == body else 1)
    ((number, found),) = next_requests(relay)
    assert found == body
    relay.send(number, body)
    ended: list[int] = []

    def has_ended() -> bool:
        assert relay.received() == []  # sends the next part of the answer
        pid, status = os.waitpid(child, os.WNOHANG)
        ended.append(status)
        return pid == child

    wait_until(has_ended, "the answer was not read")
    assert os.waitstatus_to_exitcode(ended[-1]) == 0
    with pytest.raises(ValueError, match="cannot be sent"):
        relay.send(number, body + b"x")


def test_a_slow_reader_delays_no_other_client_and_is_disconnected(relay: RelaySocket, connect: Connect) -> None:
    slow, quick = connect(), connect()
    slow.sendall(framed(b"slow"))
    ((number, _),) = next_requests(relay)
    body = b"x" * LARGEST
    for _ in range(_MOST_UNREAD // LARGEST):
        relay.send(number, body)
    quick.sendall(framed(b"quick"))
    ((other, _),) = next_requests(relay)
    relay.send(other, b"at once")
    assert read(quick) == b"at once"
    assert len(relay._connections) == 2
    relay.send(number, body)
    assert len(relay._connections) == 1, "more is unread than a worker can have asked for"


def test_closing_removes_the_socket_and_ends_connections(directory: Path) -> None:
    relay = RelaySocket(str(directory))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.connect(relay.path)
        peer.sendall(framed(b"hello"))
        next_requests(relay)
        relay.close()
        assert peer.recv(1) == b""
    assert list(directory.iterdir()) == []


def test_a_path_that_is_too_long_for_a_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    with pytest.raises(EngineError, match="too long"):
        RelaySocket(str(deep))
