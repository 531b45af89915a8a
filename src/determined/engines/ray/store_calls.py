"""Store calls of workers on other machines, as they arrive from nodes, and the answers that go back there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from determined.engines.base import StoreCalls


@dataclass(frozen=True)
class StoreCall:
    """A call of a worker. The number of its connection is unique on its node only."""

    node: str
    connection: int
    body: bytes


def encode_call(connection: int, body: bytes) -> list[Any]:
    """Return a call as an event of its node. A worker may send any bytes; the runner refuses what is no call."""
    return ["store", connection, body.decode(errors="surrogateescape")]


def decode_call(node: str, event: list[Any]) -> StoreCall:
    """Return the call that a node has encoded."""
    return StoreCall(node, event[1], event[2].encode(errors="surrogateescape"))


def answered(calls: Sequence[StoreCall], serve: StoreCalls) -> tuple[dict[str, list[list[Any]]], list[str]]:
    """Make the store calls together; return the commands by node that pass the answers on to workers.

    Also returns the keys of jobs whose reports the runner must read now.
    """
    commands: dict[str, list[list[Any]]] = {}
    answers, reported = serve([(index, call.body) for index, call in enumerate(calls)])
    for index, body in answers:
        call = calls[index]
        commands.setdefault(call.node, []).append(["answer", call.connection, body.decode(errors="surrogateescape")])
    return commands, reported
