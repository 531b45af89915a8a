"""Fuzz a real server with schemathesis, for a store of each kind: `make api-fuzz`.

    python -m tests.web.api_fuzz --schemathesis .venv-fuzz/bin/schemathesis --seconds 120

It makes requests from the OpenAPI document, valid and invalid ones, with the token. The exit code is 1 if the server
fails on any of them (status 500 and above), or gives an answer that contradicts the document.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from determined.web.openapi import document
from tests.helpers.postgres import running_server as running_postgres
from tests.helpers.searches import Search, end_processes
from tests.queue.conftest import PATIENT, SEARCH
from tests.store.rows import begin
from tests.web.server import Server, running_server
from tests.web.test_routes import filled

# The guard refuses all other methods before it looks at the path, so it cannot name those of a resource.
# A document cannot say that one of two parameters has to be given, or which options an action needs.
_CONFIG = """
[headers]
Authorization = "Bearer {token}"

[checks]
unsupported_method.enabled = false
allow_header_conformance.enabled = false

[[operations]]
include-path-regex = "^/api/(logs|actions|actions/preview|export)$|/moment$"
[operations.checks]
positive_data_acceptance.enabled = false
"""


def main() -> int:
    """Fuzz the server on both databases, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemathesis", required=True, help="the program, in an environment of its own")
    parser.add_argument("--seconds", type=int, default=120, help="for each database")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], action="append")
    arguments = parser.parse_args()
    failed = []
    for kind in arguments.database or ["sqlite", "postgresql"]:
        sys.stdout.write(f"== {kind} ==\n")
        sys.stdout.flush()
        with prepared_server(kind) as (server, home):
            if not fuzz(server, home, arguments.schemathesis, arguments.seconds, arguments.seed):
                failed.append(kind)
    sys.stdout.write(f"failed: {', '.join(failed)}\n" if failed else "no failures\n")
    return 1 if failed else 0


@contextmanager
def prepared_server(kind: str) -> Iterator[tuple[Server, Path]]:
    """Start a server for a store with a real search, one with odd values, a standalone run and a model."""
    with tempfile.TemporaryDirectory(prefix="det-fuzz-") as directory:
        home = Path(directory)
        static = home / "static"
        static.mkdir()
        for name in ("index.html", "page.js"):
            (static / name).write_text("x")
        if kind == "sqlite":
            with filled_server(home, static, None) as server:
                yield server, home
        else:
            with running_postgres() as postgres, filled_server(home, static, postgres.new_database()) as server:
                yield server, home


@contextmanager
def filled_server(home: Path, static: Path, place: str | None) -> Iterator[Server]:
    """Run a search, add rows, and start a server for the store."""
    search = Search(home, PATIENT, SEARCH, store=place, is_warm=False)
    search.activate(search.create())
    with search.opened() as store:
        filled(store)
        begin(store)
        checkpoints = store.experiments.checkpoints(1)
        store.registry.register(store.registry.create_model("model", owner="me").id, checkpoints[0].checkpoint_id)
    try:
        with running_server(static, search.env()) as server:
            yield server
            assert server.get("/api/changes")["store"]["problem"] is None
            server.interrupt()
            assert server.process.stderr is not None
            said = server.process.stderr.read()
            assert "Traceback" not in said, said
    finally:
        end_processes(home)  # the queue's daemon and the searches that it has started


def fuzz(server: Server, home: Path, program: str, seconds: int, seed: int | None) -> bool:
    """Run schemathesis for a time, and return whether it found nothing."""
    schema = home / "openapi.json"
    schema.write_text(json.dumps(document()))
    # Not as arguments, which other users of the machine can see.
    config = home / "schemathesis.toml"
    config.touch(0o600)
    config.write_text(_CONFIG.format(token=server.token))
    options = [] if seed is None else ["--seed", str(seed)]
    command = [
        str(Path(program).absolute()),
        *("--config-file", str(config)),
        *("run", str(schema), "--url", server.url),
        *("--max-time", str(seconds), "--continue-on-failure", *options),
    ]
    return subprocess.run(command, cwd=home, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
