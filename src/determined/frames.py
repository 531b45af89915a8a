"""Frames on a stream socket: each message is preceded by its length, so that the receiver knows where it ends."""

from __future__ import annotations

import struct

LARGEST = 64 * 2**20
"""The largest body of a frame in bytes. A larger length is no frame, but garbage or another protocol."""

_LENGTH = struct.Struct("!I")


class NoFrame(ValueError):
    """The received bytes are no frames; nothing that follows on the connection can be understood."""


def framed(body: bytes) -> bytes:
    """Return a body as it is sent. Raise ValueError if it is empty or too large to be received."""
    if not 0 < len(body) <= LARGEST:
        raise ValueError(f"a frame of {len(body)} bytes cannot be sent: expected 1 to {LARGEST}")
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Splits the bytes that arrive on one connection into messages, and returns the body of each complete one."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes; return the bodies of all frames that they complete. Raise `NoFrame` for garbage."""
        received = self._received
        received += data
        bodies, start = [], 0
        while len(received) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received, start)
            if not 0 < length <= LARGEST:
                raise NoFrame(f"a frame cannot have {length} bytes: expected 1 to {LARGEST}")
            end = start + _LENGTH.size + length
            if end > len(received):
                break
            bodies.append(bytes(received[start + _LENGTH.size : end]))
            start = end
        del received[:start]
        return bodies
