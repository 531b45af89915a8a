"""Reads the newest attempts of trials, and the checkpoints from which a standalone program can resume."""

from __future__ import annotations

import json

from determined.store.databases.base import Database
from determined.store.records import Run, StoredCheckpoint
from determined.store.sql import columns
from determined.store.sql.columns import text
from determined.store.sql.ranks import merged_metadata


def read_runs(database: Database, limit: int) -> list[Run]:
    """Return the trials with their newest attempts, newest first."""
    found = database.execute(
        "SELECT t.experiment_id, t.id, t.parent_id, e.program, t.hparams, t.phase, t.progress, t.metadata, "
        f"t.rank_metadata, t.early_exit, t.stop_acknowledged, t.created, {columns.ATTEMPT} FROM attempts a "
        "JOIN trials t ON t.id = a.trial_id AND t.attempt = a.number JOIN experiments e ON e.id = t.experiment_id "
        "ORDER BY a.id DESC LIMIT ?",
        [limit],
    )
    return [
        Run(
            experiment_id,
            trial_id,
            parent_id,
            program,
            json.loads(hparams),
            phase,
            progress,
            merged_metadata(metadata, rank_metadata),
            early_exit,
            bool(acknowledged),
            created,
            columns.attempt(attempt),
        )
        for (
            experiment_id,
            trial_id,
            parent_id,
            program,
            hparams,
            phase,
            progress,
            metadata,
            rank_metadata,
            early_exit,
            acknowledged,
            created,
            *attempt,
        ) in found
    ]


def latest_checkpoints(
    database: Database, identity: str | None, program: str | None, limit: int
) -> list[StoredCheckpoint]:
    """Return the checkpoints of standalone runs that are not deleted; see `Store.latest_checkpoints`."""
    chosen: list[tuple[str, str]] = []
    if identity is not None:
        chosen.append(("saver.identity = ?", identity))
    if program is not None:
        chosen.append(("(saver.identity IS NULL AND e.program = ?)", program))
    found = database.execute(
        f"{columns.SELECT_CHECKPOINTS} "
        "JOIN trials t ON t.id = c.trial_id "
        "JOIN experiments e ON e.id = t.experiment_id "
        "JOIN attempts a ON a.trial_id = t.id AND a.number = t.attempt "
        # The attempt that saved the checkpoint, whose identity counts, and `a`, the newest one, by which runs are
        # ordered.
        "JOIN attempts saver ON saver.trial_id = t.id AND saver.number = c.attempt "
        "WHERE e.by_hand = 1 AND c.state = 'ACTIVE' "
        f"{'AND (' + ' OR '.join(condition for condition, _ in chosen) + ')' if chosen else ''} "
        # By ids and not by times, because clocks can be set back.
        "ORDER BY a.id DESC, c.id DESC LIMIT ?",
        [*(text(value) for _, value in chosen), limit],
    )
    return [columns.checkpoint(row) for row in found]


def identities(database: Database, program: str) -> list[str]:
    """Return the identities under which standalone runs of a program saved checkpoints, sorted."""
    found = database.execute(
        "SELECT DISTINCT a.identity FROM attempts a JOIN trials t ON t.id = a.trial_id "
        "JOIN experiments e ON e.id = t.experiment_id "
        "JOIN checkpoints c ON c.trial_id = a.trial_id AND c.attempt = a.number AND c.state = 'ACTIVE' "
        "WHERE e.by_hand = 1 AND e.program = ? AND a.identity IS NOT NULL ORDER BY a.identity",
        [text(program)],
    )
    return [str(identity) for (identity,) in found]
