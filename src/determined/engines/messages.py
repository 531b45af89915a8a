"""Messages between the engine and its warm process: JSON behind its length, open files beside it."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("!I")
_MOST_FILES = 8


def send(connection: socket.socket, message: dict[str, Any], files: tuple[int, ...] = ()) -> None:
    """Send a message whole; the files are open in the receiver as well from then on."""
    data = json.dumps(message).encode()
    header = _LENGTH.pack(len(data))
    if files:
        socket.send_fds(connection, [header], files)
    else:
        connection.sendall(header)
    connection.sendall(data)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its files; None when the other side is gone."""
    try:
        header, files, _, _ = socket.recv_fds(connection, _LENGTH.size, _MOST_FILES)
        header += _exactly(connection, _LENGTH.size - len(header)) if header else b""
        if len(header) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack(header)
        data = _exactly(connection, length)
    except ConnectionError:
        return None
    if len(data) < length:
        return None
    message = json.loads(data)
    assert isinstance(message, dict)
    return message, files


def _exactly(connection: socket.socket, length: int) -> bytes:
    """So many bytes, or fewer when the other side is gone."""
    parts: list[bytes] = []
    while length and (part := connection.recv(min(length, 1 << 16))):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
