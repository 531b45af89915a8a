"""Messages between the engine and the warm process: a small JSON object, a body of bytes and open files.

The receiver decodes the JSON object only and passes the body on undecoded. In the warm process every page that decoding
would change could no longer be shared with the next fork.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, NamedTuple

# Both lengths come first, so that the receiver knows how much to read.
_LENGTHS = struct.Struct("!II")
# A job needs two; a bound for the buffer of the system call.
_MOST_FILES = 8


class Received(NamedTuple):
    """A received message with its files and its undecoded body."""

    message: dict[str, Any]
    files: list[int]
    body: bytes


def send(connection: socket.socket, message: dict[str, Any], files: tuple[int, ...] = (), body: bytes = b"") -> None:
    """Send a complete message; the files are duplicated into the receiving process."""
    data = json.dumps(message).encode()
    header = _LENGTHS.pack(len(data), len(body))
    # Descriptors travel with the header, because the receiver asks for them with its first read.
    if files:
        socket.send_fds(connection, [header], files)
    else:
        connection.sendall(header)
    connection.sendall(data + body)


def receive(connection: socket.socket) -> Received | None:
    """Return the next message, or None if the other side has closed the connection."""
    try:
        header, files, _, _ = socket.recv_fds(connection, _LENGTHS.size, _MOST_FILES)
        # Descriptors arrive with the first byte, which may come alone.
        header += _exactly(connection, _LENGTHS.size - len(header)) if header else b""
        if len(header) < _LENGTHS.size:
            return None
        length, rest = _LENGTHS.unpack(header)
        data = _exactly(connection, length + rest)
    # The other side was killed while it sent.
    except ConnectionError:
        return None
    if len(data) < length + rest:
        return None
    message = json.loads(data[:length])
    assert isinstance(message, dict)
    return Received(message, files, data[length:])


def _exactly(connection: socket.socket, length: int) -> bytes:
    """Receive `length` bytes, or fewer if the other side closes the connection first."""
    parts: list[bytes] = []
    # In pieces, since a large number from a broken peer must not be allocated at once.
    while length and (part := connection.recv(min(length, 1 << 16))):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
