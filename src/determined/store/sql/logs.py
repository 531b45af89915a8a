"""Queries about log lines. Filters are applied by the database, so that only matching lines are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from determined.store.databases.base import Database
from determined.store.records import Log, LogFilter, levels_from
from determined.store.sql.columns import text


def read_logs(
    database: Database, trial_id: int, after: int, limit: int | None, only: LogFilter, tail: int | None
) -> list[Log]:
    """Return the lines that match the filter and have an id above `after`, in order.

    At most `limit` lines, or the last `tail`.
    """
    conditions, values = ["trial_id = ?", "id > ?"], list[Any]([trial_id, after])
    chosen: list[tuple[str, Sequence[Any]]] = [("rank", only.ranks), ("stream", [text(one) for one in only.streams])]
    if only.level is not None:
        chosen.append(("level", levels_from(only.level)))
    for column, wanted in chosen:
        if wanted:
            conditions.append(f"{column} IN ({', '.join('?' * len(wanted))})")
            values += wanted
    if only.before is not None:
        conditions.append("written < ?")
        values.append(only.before)
    if only.after is not None:
        conditions.append("written > ?")
        values.append(only.after)
    if only.text is not None:
        conditions.append(database.contains.format(column="body"))
        values.append(text(only.text))  # escaped in the same way as the stored lines
    # Both may be given; the smaller number satisfies both.
    most = min((count for count in (limit, tail) if count is not None), default=None)
    found = database.execute(
        f"SELECT id, attempt, rank, stream, body, written, level FROM logs WHERE {' AND '.join(conditions)} "
        # The last lines are read backwards, and put into order below.
        f"ORDER BY id {'' if tail is None else 'DESC'} {'' if most is None else 'LIMIT ?'}",
        values if most is None else [*values, most],
    )
    return [Log(*row) for row in (found if tail is None else reversed(found))]


def newest_log(database: Database, trial_id: int) -> int:
    """Return the id of the trial's newest line; 0 if it has none."""
    ((newest,),) = database.execute("SELECT max(id) FROM logs WHERE trial_id = ?", [trial_id])
    return newest or 0
