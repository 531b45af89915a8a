"""Column lists that several queries share, and the functions that build records from the rows they return."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from determined.store.process import Process
from determined.store.records import Attempt, Metric, StoredCheckpoint

METRIC = "metric_group, step, archived, body, attempt, sequence, reported, rank"
ATTEMPT = """a.trial_id, a.number, a.start_step, a.host, a.pid, a.process_started, a.run_dir, a.state, a.started,
    a.ended, a.seconds, a.command, a.git_commit, a.exit_code, a.reason, a.heartbeat"""
_CHECKPOINT = """c.uuid, c.trial_id, c.attempt, c.steps_completed, c.metadata, c.resources, c.storage, c.state,
    c.reported, c.borrowed, m.body"""
_VALIDATION_OF_CHECKPOINT = """LEFT JOIN metrics m ON m.trial_id = c.trial_id AND m.metric_group = 'validation'
    AND m.step = c.steps_completed AND m.archived = 0 AND m.rank = 0"""
# For queries that add joins or a condition to it; `checkpoint` reads the rows.
SELECT_CHECKPOINTS = f"SELECT {_CHECKPOINT} FROM checkpoints c {_VALIDATION_OF_CHECKPOINT}"


def metric(row: Sequence[Any]) -> Metric:
    """Build a `Metric` from a row."""
    group, step, archived, body, attempt, sequence, reported, rank = row
    return Metric(group, step, json.loads(body), attempt, sequence, bool(archived), reported, rank)


def metrics(rows: Sequence[Sequence[Any]]) -> list[Metric]:
    """Build many `Metric` records with a single JSON decode, which takes half the time of decoding row by row."""
    if not rows:
        return []
    try:
        # Wrapping the bodies in one list is safe because each is the text of one JSON object.
        bodies = json.loads(f"[{','.join([row[3] for row in rows])}]")
    except ValueError:
        bodies = []
    if len(bodies) != len(rows):  # a body is damaged: decode row by row, so that the error shows the bad one alone
        return [metric(row) for row in rows]
    groups, steps, archived, _, attempts, sequences, reported, ranks = zip(*rows, strict=True)
    return list(map(Metric, groups, steps, bodies, attempts, sequences, map(bool, archived), reported, ranks))


def attempt(row: Sequence[Any]) -> Attempt:
    """Build an `Attempt` from a row."""
    trial_id, number, start_step, host, pid, process_started, run_dir, state, *more = row
    return Attempt(trial_id, number, start_step, Process(host, pid, process_started), run_dir, state, *more)


def checkpoint(row: Sequence[Any]) -> StoredCheckpoint:
    """Build a `StoredCheckpoint` from a row."""
    checkpoint_id, trial_id, attempt, steps, metadata, resources, storage, state, reported, borrowed, validation = row
    return StoredCheckpoint(
        checkpoint_id,
        trial_id,
        attempt,
        steps,
        json.loads(metadata),
        json.loads(resources),
        storage,
        state,
        reported,
        None if validation is None else json.loads(validation),
        bool(borrowed),
    )


def text(value: str) -> str:
    """Return text that every supported database can store.

    NUL characters, which PostgreSQL rejects, and lone surrogates, which cannot be encoded, are replaced by escapes.
    """
    return value.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def sql_list(words: Iterable[str]) -> str:
    """Return words of this package, such as states, as an SQL list; as constants they need not be bound."""
    return "(" + ", ".join(f"'{word}'" for word in words) + ")"


def optional_text(value: str | None) -> str | None:
    """Return text that every supported database can store, or None."""
    return None if value is None else text(value)
