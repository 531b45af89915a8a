"""How many events are sent together, and when the bridge stops fetching more."""

from __future__ import annotations

import socket
import threading
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from determined.engines.ray.bridge.runner_connection import RunnerConnection
from determined.engines.ray.node import actor
from determined.engines.warm import messages
from tests.helpers.waiting import wait_until


@given(st.lists(st.integers(0, 3 * actor._MOST_CHARACTERS // 2), min_size=1, max_size=20))
def test_one_call_returns_a_limited_part_of_the_events(sizes: list[int]) -> None:
    events: list[tuple[int, list[Any]]] = [(number, ["line", _Text(size)]) for number, size in enumerate(sizes)]
    sent = []
    while events:
        part = actor._first(events)
        assert part == events[: len(part)]
        characters = sum(len(event[1]) + len("line") for _, event in part)
        assert len(part) == 1 or characters <= actor._MOST_CHARACTERS
        sent += [number for number, _ in part]
        events = events[len(part) :]
    assert sent == list(range(len(sizes)))


class _Text(str):
    """A text that claims a length without using the memory for it."""

    def __new__(cls, size: int) -> _Text:
        made = super().__new__(cls, "x")
        made.size = size
        return made

    size: int

    def __len__(self) -> int:
        return self.size


def end(connection: RunnerConnection, runner: socket.socket) -> None:
    """End the threads of a connection, as the end of the runner does."""
    runner.close()
    connection.send({"cluster": []})  # fails, which ends the thread that sends
    wait_until(lambda: not any("runner" in thread.name for thread in threading.enumerate()))


def test_a_few_large_events_are_enough() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = RunnerConnection(theirs)
        part = ["file", "run/tensorboard/events", 0, "x" * 2**20]
        while not connection.is_full:  # nothing is sent before the threads are started
            connection.send({"events": "node", "list": [part] * 16})
            assert connection._added.events <= 64
        connection.start(lambda message: None)
        for _ in range(4):
            assert messages.receive(ours) is not None
        wait_until(lambda: not connection.is_full)
        end(connection, ours)


def test_events_are_fetched_until_the_runner_has_too_many_to_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = RunnerConnection(theirs)
        batch = [["line", "1.1.1", 0, "stdout", None, "text", 1.0]] * 2000
        sent = 0
        connection.start(lambda message: None)
        while not connection.is_full:
            connection.send({"events": "node", "list": batch})
            sent += 1
        # The buffer of the socket holds some of them.
        assert sent >= 10
        for _ in range(sent):
            received = messages.receive(ours)
            assert received is not None
            assert len(received.message["list"]) == 2000
        wait_until(lambda: not connection.is_full)
        end(connection, ours)
