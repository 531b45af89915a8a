"""The part of a Weights & Biases server that its client needs: runs that can be resumed, and their rows."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class ServedRun:
    """The requests of the client for one run."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_codes: list[int] = field(default_factory=list)


@contextmanager
def served() -> Iterator[tuple[str, dict[str, ServedRun]]]:
    """Run a server; yield its address, and the runs that it receives."""
    runs: dict[str, ServedRun] = {}

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:
            pass

        def do_PUT(self) -> None:
            self._body()
            self._answer({})

        def do_POST(self) -> None:
            body = self._body()
            if self.path == "/graphql":
                asked = json.loads(body)
                self._answer({"data": self._found(asked["query"], asked.get("variables") or {})})
            elif self.path.endswith("/file_stream"):
                _take(runs[self.path.split("/")[-2]], json.loads(body))
                self._answer({"limits": {}})
            else:
                self._answer({})

        def _body(self) -> bytes:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

        def _found(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
            name = variables.get("name")
            project = {"id": "p", "name": variables.get("project"), "entity": {"id": "e", "name": "me"}}
            if "RunResumeStatus" in query:
                bucket = _resumable(str(name), runs[name]) if name in runs else None
                return {"model": {**project, "bucket": bucket}}
            if "upsertBucket" in query:
                run = runs.setdefault(str(name), ServedRun())
                bucket = {"id": "b", "name": name, "displayName": name, "config": "{}", "project": project}
                return {"upsertBucket": {"bucket": {**bucket, "historyLineCount": len(run.rows)}, "inserted": True}}
            if "createRunFiles" in query:
                address = f"http://{self.headers['Host']}/upload"
                files = [{"name": file, "uploadUrl": address} for file in variables["files"]]
                return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}
            viewer = {"id": "v", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}}
            return {"viewer": viewer, "serverInfo": {"cliVersionInfo": {}, "features": []}}

        def _answer(self, said: dict[str, Any]) -> None:
            content = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", runs
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _resumable(name: str, run: ServedRun) -> dict[str, Any]:
    last = json.dumps({"_step": run.rows[-1]["_step"], "_runtime": 1})
    return {
        "name": name,
        "displayName": name,
        "summaryMetrics": json.dumps(run.summary),
        "historyLineCount": len(run.rows),
        "historyTail": json.dumps([last]),
        "eventsLineCount": 0,
        "eventsTail": "[]",
        "logLineCount": 0,
        "config": "{}",
        "wandbConfig": '{"t": 1}',
        "tags": [],
    }


def _take(run: ServedRun, said: dict[str, Any]) -> None:
    files = said.get("files") or {}
    if "wandb-history.jsonl" in files:
        rows = files["wandb-history.jsonl"]
        run.rows[rows["offset"] :] = [json.loads(row) for row in rows["content"]]
    if "wandb-summary.json" in files:
        run.summary = json.loads(files["wandb-summary.json"]["content"][-1])
    if said.get("complete"):
        run.exit_codes.append(said["exitcode"])
