"""A real server process, as `det ui` runs it, and requests to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.helpers.waiting import wait_until

# `det ui` itself refuses to start if the page was not built, as in a clone without Node.
_PROGRAM = """
import json, sys
from importlib import import_module
from pathlib import Path
from determined.web.serve import serve

options = json.loads(sys.argv[2])
for name, value in options.pop("limits", {}).items():
    module, _, constant = name.rpartition(".")
    assert hasattr(import_module(f"determined.web.{module}"), constant)
    setattr(import_module(f"determined.web.{module}"), constant, value)

def announce(started):
    said = {"url": started.url, "token": str(started.token_file), "login": str(started.login_file)}
    print(json.dumps(said), flush=True)

serve(static=Path(sys.argv[1]), open_browser=False, announce=announce, **options)
"""


@dataclass
class Server:
    """A server in a separate process."""

    process: subprocess.Popen[str]
    url: str
    token_file: Path
    login_file: Path

    @property
    def token(self) -> str:
        return self.token_file.read_text().strip()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Send a request with the token."""
        with httpx.Client(base_url=self.url, timeout=60) as client:
            return client.request(method, path, json=body, headers={"Authorization": f"Bearer {self.token}", **headers})

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def act(self, action: str, ids: list[Any], **options: Any) -> list[Any]:
        answer = self.ask("POST", "/api/actions", {"action": action, "ids": ids, "options": options})
        assert answer.status_code == 200, answer.text
        results: list[Any] = answer.json()["results"]
        return results

    def interrupt(self) -> int:
        """Press Ctrl-C, and return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)


@contextmanager
def running_server(static: Path, env: dict[str, str] | None = None, **options: Any) -> Iterator[Server]:
    """Start a server, and end it. `limits` are constants of modules of `web`; other options are those of `serve`."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(static), json.dumps(options)],
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        said = json.loads(line)
        yield Server(process, said["url"], Path(said["token"]), Path(said["login"]))
    finally:
        process.terminate()
        wait_until(lambda: process.poll() is not None, "the server did not end")
        process.stdout.close()
        process.stderr.close()
