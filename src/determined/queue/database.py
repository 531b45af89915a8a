"""Which database a URL means, however it is written: nobody who spells it differently gets a daemon of their own."""

from __future__ import annotations

import os
from typing import Any

from determined.errors import StoreError
from determined.optional import require
from determined.store.place import shown
from determined.store.process import this_user

_THIS_MACHINE = ("", "localhost", "127.0.0.1", "::1")


def database_of(url: str) -> str:
    """Its server and its name, without accounts, passwords and options of the connection."""
    psycopg: Any = require("psycopg", extra="postgres", purpose=f"the store {shown(url)}")
    try:
        found: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:  # its words may repeat a piece of the password
        raise StoreError(f"the URL of the store {shown(url)} cannot be read") from None
    host = str(found.get("host") or found.get("hostaddr") or os.environ.get("PGHOST", ""))
    if host in _THIS_MACHINE or host.startswith(("/", "@")):  # a socket
        host = "localhost"
    port = found.get("port") or os.environ.get("PGPORT") or 5432
    user = found.get("user") or os.environ.get("PGUSER") or this_user()
    return f"{host.lower()}:{port}/{found.get('dbname') or os.environ.get('PGDATABASE') or user}"
