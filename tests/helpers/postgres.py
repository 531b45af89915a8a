"""A real PostgreSQL server for tests: one for the session, a separate database for each test."""

from __future__ import annotations

import glob
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.ranks import free_port
from tests.helpers.system import missing

PASSWORD = "s3cr3t/with:odd@characters?"
_QUOTED = "s3cr3t%2Fwith%3Aodd%40characters%3F"


class PostgresServer:
    """A server that listens on loopback and requires a password."""

    def __init__(self, directory: Path) -> None:
        self._data = directory / "data"
        self._port = free_port()
        self._names = itertools.count()
        secret = directory / "password"
        secret.write_text(PASSWORD)
        if os.getuid() == 0:  # the server refuses to run as root
            shutil.chown(directory, "postgres", "postgres")
            shutil.chown(secret, "postgres", "postgres")
        self._run("initdb", "-D", self._data, "-U", "det", "-A", "scram-sha-256", f"--pwfile={secret}", "--no-sync")
        self.start()

    def start(self) -> None:
        # Durability is switched off: a crash of the machine does not matter here.
        settings = "-F -c full_page_writes=off -c wal_level=minimal -c max_wal_senders=0 -c autovacuum=off"
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -k {self._data} {settings}"
        self._run("pg_ctl", "-D", self._data, "-o", options, "-l", self._data / "log", "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server as a crash would: nothing is finished, connections are cut.

        Afterwards the server replays its log since its last checkpoint. Without the checkpoint that is made here, that
        would be everything that earlier tests have written.
        """
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        self._run("pg_ctl", "-D", self._data, "-m", mode, "-w", "stop")

    def url(self, database: str) -> str:
        return f"postgresql://det:{_QUOTED}@127.0.0.1:{self._port}/{database}"

    def new_database(self) -> str:
        """Create an empty database, and return its URL."""
        import psycopg

        name = f"test_{os.getpid()}_{next(self._names)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def _run(self, program: str, *arguments: object) -> None:
        done = subprocess.run(
            [binary(program), *map(str, arguments)],
            user="postgres" if os.getuid() == 0 else None,
            cwd="/",
            # The server serves the whole session, so it must not get the environment variables of the test that started
            # it.
            env={name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            timeout=60,
        )
        log = self._data / "log"
        assert done.returncode == 0, f"{program} ended with {done.returncode}: {log.exists() and log.read_text()}"


def binary(program: str) -> str:
    """Return the path of a program of the server; Debian installs these outside of PATH."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{program}")) or [shutil.which(program) or ""]
    if not found[-1]:
        missing("PostgreSQL", "postgresql")
    return found[-1]


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    binary("initdb")
    # Short, because the length of a socket's path is limited; readable for the user that runs the server.
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp") as directory:
        server = PostgresServer(Path(directory))
        try:
            yield server
        finally:
            server.stop()
