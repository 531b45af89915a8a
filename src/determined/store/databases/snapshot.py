"""Several queries that see the same state of a store while other processes write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from determined.errors import NotFoundException, StoreError
from determined.store.databases.base import Database


@contextmanager
def consistent_snapshot(database: Database) -> Iterator[None]:
    """Open a read-only snapshot: all queries in the block see the same state, and no writer is blocked.

    After an error of the store in the block the connection is to be closed.
    """
    # Not `transaction`, which would lock out the writers of an SQLite file.
    database.execute(database.begin_snapshot)
    try:
        yield
    except NotFoundException:
        database.execute("ROLLBACK")
        raise
    except StoreError:
        raise  # the connection may be lost: a statement would wait for another one
    # BaseException: the connection is used again after Ctrl-C or the end of a generator.
    except BaseException:
        database.execute("ROLLBACK")
        raise
    # All rows were read. A server ends a transaction on its own if the block computes for long after its last query.
    with suppress(StoreError):
        database.execute("ROLLBACK")
