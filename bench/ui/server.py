"""A server in a separate process: requests over HTTP, its CPU time and memory as the system counts them."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import psutil

from bench.measure import REPOSITORY

_DET_UI = """
import sys
from pathlib import Path
from determined.built_page import STATIC
from determined.web.serve import serve
serve(
    static=Path(sys.argv[1]) if sys.argv[1:] else STATIC, open_browser=False,
    announce=lambda s: print(s.url, s.token_file, flush=True),
)
"""


class Server:
    """A server that prints its address as the first word of its first line."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.url, *self.said = self._process.stdout.readline().split()
        self._headers: dict[str, str] = {}
        self._line = http.client.HTTPConnection(urlsplit(self.url).netloc)
        self._seen = psutil.Process(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._line.close()
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def get(self, path: str) -> bytes:
        """Return the answer to a request."""
        return self._request("GET", path)

    def post(self, path: str, body: str, kind: str) -> bytes:
        """Return the answer to a request with a body."""
        return self._request("POST", path, body, {"content-type": kind})

    def _request(self, method: str, path: str, body: str | None = None, more: Mapping[str, str] | None = None) -> bytes:
        # On one connection, as a browser does. A server closes it after a few seconds without requests.
        try:
            self._line.request(method, path, body, {**self._headers, **(more or {})})
            answer = self._line.getresponse()
        except http.client.RemoteDisconnected:
            self._line.close()
            self._line.request(method, path, body, {**self._headers, **(more or {})})
            answer = self._line.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        return content

    def cpu(self) -> float:
        """Return the seconds of CPU time of the process and of those that it has started."""
        found = 0.0
        for process in [self._seen, *self._seen.children(recursive=True)]:
            times: Any = process.cpu_times()
            found += float(times.user + times.system)
        return found

    def megabytes(self) -> float:
        """Return the resident memory of the process and of those that it has started."""
        processes = [self._seen, *self._seen.children(recursive=True)]
        return sum(float(process.memory_info().rss) for process in processes) / 2**20


class DetUi(Server):
    """`det ui` with the built page, or with the files of another directory."""

    def __init__(self, environment: Mapping[str, str], static: Path | None = None) -> None:
        place = [] if static is None else [str(static)]
        super().__init__([sys.executable, "-c", _DET_UI, *place], {**environment, "PYTHONPATH": _python_path()})
        self.token = Path(self.said[0]).read_text().strip()
        self._headers = {"Authorization": f"Bearer {self.token}"}

    def version(self) -> str:
        """Return the version of the store's content."""
        return str(json.loads(self.get("/api/changes"))["version"])

    def cpu_of(self, path: str, times: int = 1) -> float:
        """Return the CPU time of one of several equal requests."""
        before = self.cpu()
        for _ in range(times):
            self.get(path)
        return (self.cpu() - before) / times


def _python_path() -> str:
    return os.pathsep.join(filter(None, [str(REPOSITORY / "src"), os.environ.get("PYTHONPATH", "")]))
