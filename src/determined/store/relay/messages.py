"""The messages between a worker and the runner: requests, answers, and errors that are raised again.

A request is `{"id": n, "job": allocation, "call": name, "args": [...]}`; the first one of a connection also has
`"hello"`, the version of this protocol. The answer is `{"id": n, "result": ...}` or
`{"id": n, "error": {"type": ..., "message": ...}}`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from determined import errors
from determined.errors import DeterminedError, StoreError, StoreUnavailable, StoreVersionError

PROTOCOL = 2
"""Increased with every change of these messages, of `WorkerStore`, or of a record that it names."""

# Errors whose only argument is a message. A subclass that is not listed arrives as its nearest base class that is.
_RAISED_AGAIN: dict[str, type[DeterminedError]] = {
    kind.__name__: kind
    for kind in (
        DeterminedError,
        StoreError,
        errors.NotFoundException,
        StoreUnavailable,
        errors.StoreFull,
        StoreVersionError,
        errors.StoreReadOnly,
        errors.CheckpointInUse,
        errors.CheckpointNotFound,
        errors.CheckpointStateException,
    )
}


class Request(NamedTuple):
    """A call of a worker, whose arguments are not decoded yet."""

    number: int
    job: str
    call: str
    arguments: list[Any]


def request(number: int, job: str, call: str, arguments: str, *, hello: bool) -> bytes:
    """Return a request; `arguments` is a JSON list. With `hello` it says which protocol the worker speaks."""
    greeting = f'"hello": {PROTOCOL}, ' if hello else ""
    head = f'{{"id": {number}, {greeting}"job": {json.dumps(job)}, "call": {json.dumps(call)}, "args": '
    return f"{head}{arguments}}}".encode()


def parse(body: bytes) -> dict[str, Any]:
    """Decode a message. Raise ValueError if it is not a JSON object."""
    try:
        data = json.loads(body)
    # JSON that is nested thousands of times.
    except RecursionError as error:
        raise ValueError(str(error)) from error
    if type(data) is not dict:
        raise ValueError(f"expected an object, got {type(data).__name__}")
    return data


def number_of(message: dict[str, Any]) -> int | None:
    """Return the id of a message; None if it has none."""
    number = message.get("id")
    return number if type(number) is int else None


def checked_request(message: dict[str, Any]) -> Request:
    """Return the request in a message. Raise `StoreVersionError` for another protocol, ValueError if malformed."""
    # Checked first, because a request of another version may have another form.
    spoken = message.get("hello", PROTOCOL)
    if spoken != PROTOCOL:
        raise StoreVersionError(
            f"this worker speaks version {spoken!r} of the protocol of the store's relay, and its runner version "
            f"{PROTOCOL}: install the same version of determined-pytorch on every node"
        )
    number, job, call, arguments = (message.get(name) for name in ("id", "job", "call", "args"))
    if type(number) is not int or type(job) is not str or type(call) is not str or type(arguments) is not list:
        raise ValueError("expected id, job, call and args")
    return Request(number, job, call, arguments)


def answered(number: int, result: Any) -> bytes:
    """Return the answer to a call that succeeded."""
    return f'{{"id": {number}, "result": {"null" if result is None else json.dumps(result)}}}'.encode()


def failed(number: int | None, error: Exception) -> bytes:
    """Return the answer to a call that failed."""
    known = (kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _RAISED_AGAIN)
    name = next(known, type(error).__name__)
    return json.dumps({"id": number, "error": {"type": name, "message": str(error)}}).encode()


def error_of(message: dict[str, Any]) -> DeterminedError | None:
    """Return the error in an answer, or None. An unknown one becomes `StoreUnavailable`, so the call is retried."""
    error = message.get("error")
    if error is None:
        return None
    kind = _RAISED_AGAIN.get(error["type"])
    if kind is None:
        return StoreUnavailable(f"the runner could not use its store: {error['type']}: {error['message']}")
    return kind(error["message"])
