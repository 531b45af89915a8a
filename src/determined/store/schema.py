"""The tables, as a list of steps: a store of version n has gone through the first n."""

from __future__ import annotations

from determined.errors import StoreError

VERSION_TABLE = "determined_schema"

# `{identity}` is the type of a column that counts rows. Truth is 0 or 1, JSON is text: both databases agree on these.
_FIRST = """
CREATE TABLE experiments (
    id {identity},
    key TEXT NOT NULL UNIQUE,
    by_hand SMALLINT NOT NULL,
    program TEXT NOT NULL,
    config TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL
);
CREATE INDEX experiments_by_program ON experiments (program);

CREATE TABLE trials (
    id {identity},
    experiment_id BIGINT NOT NULL REFERENCES experiments (id),
    parent_id BIGINT REFERENCES trials (id),
    hparams TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    phase TEXT NOT NULL DEFAULT '',
    progress DOUBLE PRECISION,
    metadata TEXT NOT NULL DEFAULT '{{}}',
    early_exit TEXT,
    stop_acknowledged SMALLINT NOT NULL DEFAULT 0,
    created DOUBLE PRECISION NOT NULL
);
CREATE INDEX trials_by_experiment ON trials (experiment_id);

CREATE TABLE attempts (
    id {identity},
    key TEXT NOT NULL UNIQUE,
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    number INTEGER NOT NULL,
    start_step BIGINT NOT NULL,
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    process_started TEXT NOT NULL,
    run_dir TEXT NOT NULL,
    state TEXT NOT NULL,
    started DOUBLE PRECISION NOT NULL,
    ended DOUBLE PRECISION,
    seconds DOUBLE PRECISION,
    UNIQUE (trial_id, number)
);

CREATE TABLE metrics (
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    metric_group TEXT NOT NULL,
    step BIGINT NOT NULL,
    attempt INTEGER NOT NULL,
    sequence BIGINT NOT NULL,
    archived SMALLINT NOT NULL DEFAULT 0,
    body TEXT NOT NULL,
    reported DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (trial_id, metric_group, step)
);

CREATE TABLE samples (
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    attempt INTEGER NOT NULL,
    sequence BIGINT NOT NULL,
    metric_group TEXT NOT NULL,
    body TEXT NOT NULL,
    reported DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (trial_id, attempt, sequence)
);

CREATE TABLE checkpoints (
    id {identity},
    uuid TEXT NOT NULL UNIQUE,
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    attempt INTEGER NOT NULL,
    steps_completed BIGINT NOT NULL,
    metadata TEXT NOT NULL,
    resources TEXT NOT NULL,
    storage TEXT NOT NULL,
    state TEXT NOT NULL,
    reported DOUBLE PRECISION NOT NULL
);
CREATE INDEX checkpoints_by_trial ON checkpoints (trial_id);

CREATE TABLE logs (
    id {identity},
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    attempt INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    sequence BIGINT NOT NULL,
    stream TEXT NOT NULL,
    body TEXT NOT NULL,
    written DOUBLE PRECISION NOT NULL,
    UNIQUE (trial_id, attempt, rank, sequence)
);

CREATE TABLE requests (
    id {identity},
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    kind TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL
);
CREATE INDEX requests_by_trial ON requests (trial_id);
"""

MIGRATIONS: list[str] = [_FIRST]


def refuse_foreign(tables: set[str], place: str) -> None:
    """A database with tables that are not ours is left alone."""
    if tables and VERSION_TABLE not in tables:
        raise StoreError(
            f"{place} holds the data of another program ({', '.join(sorted(tables)[:3])}): "
            "name another store with DET_STORE"
        )
