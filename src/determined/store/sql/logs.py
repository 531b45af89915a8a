"""Queries about log lines. Filters are applied by the database, so that only matching lines are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from determined.store.databases.base import Database
from determined.store.records import Log, LogFilter, levels_from
from determined.store.sql.columns import text


def read_logs(
    database: Database, trial_id: int, after: int, limit: int | None, only: LogFilter, tail: int | None
) -> list[Log]:
    """Return the lines that match the filter and have an id above `after`, in order.

    At most `limit` lines, or the last `tail`.
    """
    conditions, values = _conditions(database, only)
    conditions, values = ["trial_id = ?", "id > ?", *conditions], [trial_id, after, *values]
    most = min((count for count in (limit, tail) if count is not None), default=None)
    found = database.execute(
        f"SELECT id, attempt, rank, stream, body, written, level FROM logs WHERE {' AND '.join(conditions)} "
        f"ORDER BY id {'' if tail is None else 'DESC'} {'' if most is None else 'LIMIT ?'}",
        values if most is None else [*values, most],
    )
    # The last lines were read backwards.
    return [_log(*row) for row in (found if tail is None else reversed(found))]


class LogRange(NamedTuple):
    """Which lines of a log to read: of a trial or an experiment, between two ids, the first or the last of them.

    `only_trials` limits the lines of an experiment to those of some of its trials; None means all trials.
    """

    trial_id: int | None = None
    experiment_id: int | None = None
    only_trials: tuple[int, ...] | None = None
    after: int | None = None
    before: int | None = None
    last: bool = False


def read_log_page(database: Database, which: LogRange, only: LogFilter, limit: int) -> list[tuple[int, Log]]:
    """Return at most `limit` lines in order, each with its trial."""
    conditions, values = _conditions(database, only)
    for condition, value in (
        ("trial_id = ?", which.trial_id),
        ("trial_id IN (SELECT t.id FROM trials t WHERE t.experiment_id = ?)", which.experiment_id),
        ("id > ?", which.after),
        ("id < ?", which.before),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    if which.only_trials is not None:
        conditions.append(f"trial_id IN ({', '.join('?' * len(which.only_trials))})")
        values += which.only_trials
    found = database.execute(
        f"SELECT trial_id, id, attempt, rank, stream, body, written, level FROM logs WHERE {' AND '.join(conditions)} "
        f"ORDER BY id {'DESC' if which.last else ''} LIMIT ?",
        [*values, limit],
    )
    return [(trial_id, _log(*row)) for trial_id, *row in (reversed(found) if which.last else found)]


def first_line_at(database: Database, which: LogRange, moment: float) -> int | None:
    """Return the id of the first line that was written at this time or later, or None."""
    column, value = (
        ("trial_id", which.trial_id) if which.trial_id is not None else ("t.experiment_id", which.experiment_id)
    )
    join = "" if which.trial_id is not None else "JOIN trials t ON t.id = logs.trial_id"
    ((found,),) = database.execute(
        f"SELECT min(logs.id) FROM logs {join} WHERE {column} = ? AND written >= ?", [value, moment]
    )
    return None if found is None else int(found)


def _conditions(database: Database, only: LogFilter) -> tuple[list[str], list[Any]]:
    """Return the SQL conditions of a filter and their values."""
    conditions: list[str] = []
    values: list[Any] = []
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
    return conditions, values


def newest_log(database: Database, trial_id: int) -> int:
    """Return the id of the trial's newest line; 0 if it has none."""
    ((newest,),) = database.execute("SELECT max(id) FROM logs WHERE trial_id = ?", [trial_id])
    return newest or 0


def _log(line_id: int, attempt: int, rank: int, stream: str, body: str, written: float, level: str | None) -> Log:
    """Return a line; one that is not finished is stored with a carriage return at its end."""
    if body.endswith("\r"):
        return Log(line_id, attempt, rank, stream, body[:-1], written, level, finished=False)
    return Log(line_id, attempt, rank, stream, body, written, level)
