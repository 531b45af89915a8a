"""Normalize PostgreSQL URLs, so that different spellings of one database share one queue daemon."""

from __future__ import annotations

import os
from typing import Any

from determined.errors import StoreError
from determined.optional import require
from determined.store.databases.location import shown
from determined.store.process import this_user

# Spellings of the same server; a socket counts as this machine, too.
_THIS_MACHINE = ("", "localhost", "127.0.0.1", "::1")


def database_of(url: str) -> str:
    """Return the server, port and database name of a URL, without user, password and connection options."""
    psycopg: Any = require("psycopg", extra="postgres", purpose=f"the store {shown(url)}")
    try:
        found: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:  # the driver's message is not shown because it may repeat part of the password
        raise StoreError(f"the URL of the store {shown(url)} is invalid") from None
    host = str(found.get("host") or found.get("hostaddr") or os.environ.get("PGHOST", ""))
    if host in _THIS_MACHINE or host.startswith(("/", "@")):  # the directory or abstract name of a Unix socket
        host = "localhost"
    # libpq reads the same variables if the URL has no value.
    port = found.get("port") or os.environ.get("PGPORT") or 5432
    user = found.get("user") or os.environ.get("PGUSER") or this_user()
    # libpq's default is the database with the name of the user.
    return f"{host.lower()}:{port}/{found.get('dbname') or os.environ.get('PGDATABASE') or user}"
