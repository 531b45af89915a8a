"""`RelayedWorkerStore`: the `WorkerStore` of a worker on another machine, which sends its calls to a Unix socket."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from determined.errors import StoreError, StoreUnavailable
from determined.frames import LARGEST, FrameReader, framed
from determined.store.relay import codec, messages

if TYPE_CHECKING:
    from determined.store.rows import Row

# A runner answers within milliseconds; after this time it hangs, or the message was lost with a node.
_SECONDS_TO_ANSWER = 60.0
# The rows of one request. Each process on the way holds several copies of it, so it is much less than a frame.
_MOST_BYTES = 8 * 2**20
_AT_ONCE = 1 << 16  # bytes that are received by one call


class RelayedWorkerStore:
    """A `WorkerStore` whose methods are called by their names in the process of the runner.

    A call that got no answer raises `StoreUnavailable`, and the next one opens a new connection: a caller that repeats
    the call delivers it at least once, which every method of the interface allows.
    """

    def __init__(self, path: str, job: str) -> None:
        """Connect to the socket at this path, for the job with this allocation id."""
        self._path = path
        self._job = job
        self._numbers = itertools.count()
        self._connection: _Connection | None = None
        # Connected now, because a wrong path should fail when the store is opened.
        self._connected()

    @property
    def place(self) -> str:
        return f"relay:{self._path}"

    def close(self) -> None:
        self._disconnect()

    def write(self, rows: Sequence[Row]) -> None:
        # Several requests are as good as one, because a writer may divide its rows into transactions as it likes.
        for part in _parts(rows):
            self._call("write", part)

    # The other methods of the interface. Their signatures are those of `WorkerStore`, and are not repeated here.
    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in codec.method_names():
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            return self._call(name, json.dumps(arguments))

        return call

    def _call(self, name: str, arguments: str) -> Any:
        """Return the result of a call, whose arguments are a JSON list, or raise its error."""
        number = next(self._numbers)
        try:
            connection = self._connected()
            body = messages.request(number, self._job, name, arguments, hello=connection.is_new)
            if len(body) > LARGEST:
                raise StoreError(f"a report of {len(body)} bytes is too large for the store: at most {LARGEST} bytes")
            answer = messages.parse(connection.ask(body))
            if messages.number_of(answer) != number:
                # Also an answer without a number: the runner did not understand the request.
                raise ValueError(f"unexpected answer {answer}")
        except (OSError, ValueError) as error:
            self._disconnect()
            raise StoreUnavailable(f"the store {self.place} gave no answer: {error}") from error
        # Interrupted while waiting: the late answer must not be taken for that of the next call.
        except BaseException:
            self._disconnect()
            raise
        raised = messages.error_of(answer)
        if raised is not None:
            raise raised
        return codec.method(name).result(answer["result"])

    def _disconnect(self) -> None:
        """Close the connection; the next call opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> _Connection:
        """Return the connection; open one if there is none. Raise `StoreUnavailable` if no process listens."""
        if self._connection is None:
            try:
                self._connection = _Connection(self._path)
            except OSError as error:
                raise StoreUnavailable(f"the store {self.place} cannot be reached now: {error}") from error
        return self._connection


class _Connection:
    """A connected socket, on which one request at a time is sent and answered."""

    def __init__(self, path: str) -> None:
        self.is_new = True  # no request was sent yet
        self._frames = FrameReader()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_SECONDS_TO_ANSWER)
        try:
            self._socket.connect(path)
        except BaseException:
            self._socket.close()
            raise

    def ask(self, body: bytes) -> bytes:
        """Send a request and return the next message that arrives."""
        self.is_new = False
        self._socket.sendall(framed(body))
        while True:
            data = self._socket.recv(_AT_ONCE)
            if not data:
                raise ConnectionError("the connection was closed")
            for answer in self._frames.feed(data):
                return answer

    def close(self) -> None:
        self._socket.close()


def _parts(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the arguments of `write` for rows, in parts of limited size."""
    part: list[str] = []
    size = 0
    for row in rows:
        text = json.dumps(codec.tagged(row))
        if part and size + len(text) > _MOST_BYTES:
            yield f"[[{', '.join(part)}]]"
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield f"[[{', '.join(part)}]]"
