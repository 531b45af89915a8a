"""Translates an `ExperimentFilter` into SQL conditions, so that the database selects the experiments."""

from __future__ import annotations

import json
import re
from typing import Any

from determined.store import standalone_runs
from determined.store.databases.base import Database
from determined.store.experiment_records import ExperimentFilter
from determined.store.sql import experiment_columns as rows
from determined.store.sql.columns import sql_list, text

_ESCAPE = "!"
_NEWEST_ATTEMPTS = (
    "FROM trials t JOIN attempts a ON a.trial_id = t.id AND a.number = t.attempt WHERE t.experiment_id = e.id"
)
# The state of a standalone experiment none of whose trials is running; see `standalone_runs.experiment_status`.
_STATE_AFTER_ITS_END = (
    f"CASE WHEN EXISTS (SELECT 1 {_NEWEST_ATTEMPTS} AND a.state = 'completed') THEN 'completed' "
    f"ELSE (SELECT a.state {_NEWEST_ATTEMPTS} ORDER BY a.id DESC LIMIT 1) END"
)


def conditions_of(database: Database, only: ExperimentFilter) -> tuple[list[str], list[Any]]:
    """Return SQL conditions on the experiment `e`, all of which must hold, and their values in order."""
    conditions: list[str] = []
    values: list[Any] = []
    if only.states:
        conditions.append(_state_condition(database, only))
    for label in only.labels:
        # Labels are stored as a JSON list. Including the separators prevents a match inside another label.
        listed = "', ' || substr(e.labels, 2, length(e.labels) - 2) || ', '"
        conditions.append(database.contains.format(column=f"({listed})"))
        # The same encoding as that of the stored list, which escapes characters outside of ASCII.
        values.append(f", {json.dumps(label)}, ")
    if only.name is not None:
        unnamed = _unnamed_with(database, only.name)
        # A standalone run without a name is shown with the name of its program, so it is matched by that.
        named = "(e.by_hand = 0 OR e.name <> '')"
        conditions.append(f"(({named} AND {_matches(database, 'e.name')}) OR {_is_one_of(unnamed)})")
        values.append(_like_pattern(only.name))
    if only.owner is not None:
        conditions.append(_matches(database, "e.owner"))
        values.append(_like_pattern(only.owner))
    if only.since is not None:
        conditions.append("e.created >= ?")
        values.append(only.since)
    return conditions, values


def _state_condition(database: Database, only: ExperimentFilter) -> str:
    """Return the SQL condition for the wanted states. It contains only fixed words and numbers, no user input.

    A search has its state in its row. The state of a standalone run follows from its attempts; if an attempt is
    recorded as running, only a check of the process tells whether it is, so those few experiments are read here.
    """
    running = database.execute(
        "SELECT DISTINCT t.experiment_id FROM attempts a JOIN trials t ON t.id = a.trial_id AND t.attempt = a.number "
        "JOIN experiments e ON e.id = t.experiment_id WHERE e.by_hand = 1 AND a.state = 'running'"
    )
    ids = [number for (number,) in running]
    read = rows.read_experiments(database, f"WHERE {_is_one_of(ids)}")
    matching = [experiment.id for experiment in read if experiment.state in only.states]
    ended = [attempt for attempt, state in standalone_runs.STATES_AFTER_THE_END.items() if state in only.states]
    return (
        f"((e.by_hand = 0 AND e.state IN {sql_list(only.states)}) OR {_is_one_of(matching)}"
        + (
            f" OR (e.by_hand = 1 AND NOT {_is_one_of(ids)} AND {_STATE_AFTER_ITS_END} IN {sql_list(ended)})"
            if ended
            else ""
        )
        + ")"
    )


def _unnamed_with(database: Database, pattern: str) -> list[int]:
    """Return the ids of unnamed standalone experiments whose program's file name matches the pattern.

    This is done in Python because the file name is only part of the stored path.
    """
    found = database.execute("SELECT id, program, config FROM experiments WHERE by_hand = 1 AND name = ''")
    expression = re.compile(
        "".join({"*": ".*", "?": "."}.get(character) or re.escape(character) for character in pattern),
        re.IGNORECASE | re.DOTALL,
    )
    return [
        number
        for number, program, config in found
        if expression.fullmatch(standalone_runs.name(json.loads(config), program))
    ]


def _matches(database: Database, column: str) -> str:
    """Return the condition that a column matches a case-insensitive pattern."""
    return f"{column} {database.like} ? ESCAPE '{_ESCAPE}'"


def _like_pattern(pattern: str) -> str:
    """Translate a pattern with `*` and `?` into one for SQL LIKE."""
    known = {"*": "%", "?": "_", "%": f"{_ESCAPE}%", "_": f"{_ESCAPE}_", _ESCAPE: _ESCAPE * 2}
    return "".join(known.get(character, character) for character in text(pattern))


def _is_one_of(ids: list[int]) -> str:
    """Return the condition that an experiment has one of these ids."""
    # Written into the statement because the number of bound values is limited; `0 = 1` because `IN ()` is not valid.
    return f"e.id IN ({', '.join(map(str, ids))})" if ids else "0 = 1"
