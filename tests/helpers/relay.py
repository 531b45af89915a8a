"""Relays for tests: the real sockets and messages, served by a thread of the test.

with serving(RelayServer(lambda: open_store(place)), {job: trial_id}.get) as relay:   # as a runner and a node do
    store = RelayedWorkerStore(relay.path, job)
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import tempfile
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from determined.engines.relay_socket import RelaySocket
from determined.store.open import open_store
from determined.store.relay import codec, messages
from determined.store.relay.client import RelayedWorkerStore
from determined.store.relay.server import RelayServer
from determined.store.workers.local_worker_store import LocalWorkerStore

Messages = list[tuple[int, bytes]]
_SCALARS = (int, float, str, bool, type(None))
# Executed once: a repeated claim answers None, which is allowed, but the tests check for the warning.
_ONCE = {"claim_shared_metric"}


class Relay:
    """A node and its runner in one thread: `answer` receives the requests that arrive at the socket, and returns
    answers.
    """

    def __init__(self, answer: Callable[[Messages], Messages]) -> None:
        # Short, because the path of a socket is limited.
        self.directory = tempfile.mkdtemp(prefix="relay-", dir="/tmp")
        self.socket = RelaySocket(self.directory)
        self.path = self.socket.path
        self._answer = answer
        self._end, self._ending = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ)
            selector.register(self._end, selectors.EVENT_READ)
            while not any(key.fileobj == self._end for key, _ in selector.select()):
                for connection, body in self._answer(self.socket.received()):
                    self.socket.send(connection, body)

    def close(self) -> None:
        os.write(self._ending, b"!")
        self._thread.join()
        self.socket.close()
        os.close(self._end)
        os.close(self._ending)
        shutil.rmtree(self.directory)


@contextmanager
def serving(server: RelayServer, current: Callable[[str], int | None]) -> Iterator[Relay]:
    """Serve jobs; `current` returns the trial whose current job a job is."""
    relay = Relay(lambda requests: server.answer(requests, current).bodies)
    try:
        yield relay
    finally:
        relay.close()
        server.close()


class RelayedStore(RelayedWorkerStore):
    """The store at a place, behind a relay that executes every call twice and allows every method to all jobs.

    For standalone runs, which a runner does not serve.
    """

    def __init__(self, place: str) -> None:
        self._store = open_store(place)
        self._relay = Relay(self._answers)
        super().__init__(self._relay.path, "a job")

    def close(self) -> None:
        super().close()
        self._relay.close()
        self._store.close()

    def _answers(self, requests: Messages) -> Messages:
        return [(connection, self._execute(body)) for connection, body in requests]

    def _execute(self, body: bytes) -> bytes:
        asked = messages.checked_request(messages.parse(body))
        store = LocalWorkerStore(self._store)
        try:
            for _ in range(1 if asked.call in _ONCE else 2):
                given = codec.method(asked.call).decoded(json.loads(json.dumps(asked.arguments)))
                result = getattr(store, asked.call)(*given)
        except Exception as error:  # noqa: BLE001
            return messages.failed(asked.number, error)
        return messages.answered(asked.number, result)


def methods() -> dict[str, dict[str, Any]]:
    """Return the methods of the interface, each with the types of its arguments and of its result ("return")."""
    return {name: codec.type_hints(name) for name in sorted(codec.method_names() | {"close"})}


def is_plain(hint: Any) -> bool:
    """Return whether every value of this type is plain data."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in _SCALARS or hint is Any or origin is Literal:
        return True
    if origin is dict:
        return args[0] is str and is_plain(args[1])
    if origin in (list, tuple, Sequence, Union, types.UnionType):
        return all(arg is ... or is_plain(arg) for arg in args)
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return all(map(is_plain, get_type_hints(hint).values()))
    return False
