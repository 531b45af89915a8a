"""The database schema as a list of migrations: a store of version n has had the first n applied."""

from __future__ import annotations

from determined.errors import StoreError

VERSION_TABLE = "determined_schema"

# `{identity}` is the type of an auto-incremented id. Booleans are stored as 0 or 1 and JSON as text, because SQLite and
# PostgreSQL agree on these types.
# `key` columns hold an id that the caller chose, so that a repeated insertion finds the row of the first one. A metric
# is identified by trial, group and step, so that a step that is trained again is stored once. Braces of literals are
# doubled, because the text is passed to `str.format`.
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

# Experiments with a search. The `state` of a standalone run is NULL: it follows from its newest attempt.
# `trials_by_number` begins with the same column as the index that it replaces.
_SECOND = """
ALTER TABLE experiments ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE experiments ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE experiments ADD COLUMN labels TEXT NOT NULL DEFAULT '[]';
ALTER TABLE experiments ADD COLUMN state TEXT;
ALTER TABLE experiments ADD COLUMN progress DOUBLE PRECISION;
ALTER TABLE experiments ADD COLUMN reason TEXT;
ALTER TABLE experiments ADD COLUMN seed BIGINT NOT NULL DEFAULT 0;
ALTER TABLE experiments ADD COLUMN original TEXT NOT NULL DEFAULT '';
ALTER TABLE experiments ADD COLUMN code_dir TEXT NOT NULL DEFAULT '';
ALTER TABLE experiments ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE experiments ADD COLUMN archived SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE experiments ADD COLUMN parent_id BIGINT REFERENCES experiments (id);
ALTER TABLE experiments ADD COLUMN ended DOUBLE PRECISION;
ALTER TABLE experiments ADD COLUMN metric TEXT;
ALTER TABLE experiments ADD COLUMN smaller_is_better SMALLINT NOT NULL DEFAULT 1;
ALTER TABLE experiments ADD COLUMN last_request BIGINT NOT NULL DEFAULT 0;

ALTER TABLE trials ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN request_id TEXT NOT NULL DEFAULT '';
ALTER TABLE trials ADD COLUMN seed BIGINT NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN state TEXT;
ALTER TABLE trials ADD COLUMN goal DOUBLE PRECISION;
ALTER TABLE trials ADD COLUMN rungs TEXT NOT NULL DEFAULT '[]';
ALTER TABLE trials ADD COLUMN bracket INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN source TEXT;
ALTER TABLE trials ADD COLUMN allocation TEXT NOT NULL DEFAULT '';
ALTER TABLE trials ADD COLUMN last_request BIGINT NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN runs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN restarts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN reason TEXT;
ALTER TABLE trials ADD COLUMN ended DOUBLE PRECISION;
ALTER TABLE trials ADD COLUMN steps_completed BIGINT NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN best_metric DOUBLE PRECISION;
ALTER TABLE trials ADD COLUMN best_step BIGINT;
UPDATE trials SET steps_completed =
    coalesce((SELECT max(step) FROM metrics WHERE trial_id = trials.id AND archived = 0), 0);
DROP INDEX trials_by_experiment;
CREATE UNIQUE INDEX trials_by_number ON trials (experiment_id, number);
CREATE INDEX trials_by_metric ON trials (experiment_id, best_metric);

CREATE TABLE leases (
    experiment_id BIGINT PRIMARY KEY REFERENCES experiments (id),
    token BIGINT NOT NULL DEFAULT 0,
    heartbeat BIGINT NOT NULL DEFAULT 0,
    host TEXT,
    pid BIGINT,
    process_started TEXT,
    since DOUBLE PRECISION
);

CREATE TABLE journal (
    experiment_id BIGINT NOT NULL REFERENCES experiments (id),
    sequence BIGINT NOT NULL,
    event TEXT NOT NULL,
    actions TEXT NOT NULL,
    PRIMARY KEY (experiment_id, sequence)
);

CREATE TABLE snapshots (
    experiment_id BIGINT PRIMARY KEY REFERENCES experiments (id),
    sequence BIGINT NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE experiment_requests (
    id {identity},
    experiment_id BIGINT NOT NULL REFERENCES experiments (id),
    trial_id BIGINT REFERENCES trials (id),
    kind TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL
);
CREATE INDEX experiment_requests_in_order ON experiment_requests (experiment_id, id);

ALTER TABLE logs ADD COLUMN level TEXT;
CREATE INDEX logs_in_order ON logs (trial_id, id);
"""

# The model registry, and notes on experiments. A registered checkpoint cannot be deleted.
_THIRD = """
ALTER TABLE experiments ADD COLUMN notes TEXT NOT NULL DEFAULT '';
CREATE INDEX experiments_by_parent ON experiments (parent_id);
CREATE INDEX trials_by_parent ON trials (parent_id);
CREATE INDEX trials_by_source ON trials (source);
CREATE INDEX attempts_by_run_dir ON attempts (run_dir);

CREATE TABLE models (
    id {identity},
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    notes TEXT NOT NULL,
    labels TEXT NOT NULL,
    metadata TEXT NOT NULL,
    owner TEXT NOT NULL,
    archived SMALLINT NOT NULL DEFAULT 0,
    last_version INTEGER NOT NULL DEFAULT 0,
    created DOUBLE PRECISION NOT NULL,
    updated DOUBLE PRECISION NOT NULL
);

CREATE TABLE model_versions (
    id {identity},
    model_id BIGINT NOT NULL REFERENCES models (id),
    number INTEGER NOT NULL,
    checkpoint TEXT NOT NULL REFERENCES checkpoints (uuid),
    name TEXT NOT NULL,
    notes TEXT NOT NULL,
    labels TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    updated DOUBLE PRECISION NOT NULL,
    UNIQUE (model_id, number)
);
CREATE INDEX model_versions_by_checkpoint ON model_versions (checkpoint);
"""

# The queue of experiments; names that programs give to their runs; uses of checkpoints; and `borrowed`, which marks
# imported rows whose files belong to another store.
# External ids are unique, so that two processes with the same names cannot create two experiments.
_FOURTH = """
CREATE TABLE queue (
    id {identity},
    experiment_id BIGINT NOT NULL UNIQUE REFERENCES experiments (id),
    host TEXT NOT NULL,
    owner TEXT NOT NULL,
    priority INTEGER NOT NULL,
    slots INTEGER,
    max_trials INTEGER,
    added DOUBLE PRECISION NOT NULL
);

ALTER TABLE experiments ADD COLUMN external_id TEXT;
ALTER TABLE trials ADD COLUMN external_id TEXT;
ALTER TABLE trials ADD COLUMN started DOUBLE PRECISION;
CREATE UNIQUE INDEX experiments_by_external_id ON experiments (external_id);
CREATE UNIQUE INDEX trials_by_external_id ON trials (experiment_id, external_id);

CREATE TABLE checkpoint_uses (
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    checkpoint TEXT NOT NULL REFERENCES checkpoints (uuid),
    model_version BIGINT REFERENCES model_versions (id),
    since DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (trial_id, checkpoint)
);
CREATE INDEX checkpoint_uses_by_checkpoint ON checkpoint_uses (checkpoint);

ALTER TABLE experiments ADD COLUMN borrowed SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE checkpoints ADD COLUMN borrowed SMALLINT NOT NULL DEFAULT 0;
"""

# Reports from every rank, outputs of batch inference, hyperparameters passed by the program, identities of programs,
# and checkpoints that are being published.
# SQLite cannot change a primary key, so `metrics` and `samples` are copied into new tables with the rank in the key.
# `publishing` does not refer to `checkpoints`, because its rows are written before those exist.
_FIFTH = """
ALTER TABLE trials ADD COLUMN passed_hparams TEXT;
ALTER TABLE trials ADD COLUMN follows_operations SMALLINT NOT NULL DEFAULT 0;

CREATE TABLE outputs (
    trial_id BIGINT PRIMARY KEY REFERENCES trials (id),
    uuid TEXT NOT NULL UNIQUE,
    storage TEXT NOT NULL,
    borrowed SMALLINT NOT NULL DEFAULT 0
);

CREATE TABLE uploads (
    id {identity},
    key TEXT NOT NULL UNIQUE,
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    attempt INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    batches BIGINT NOT NULL,
    files TEXT NOT NULL,
    finished SMALLINT NOT NULL DEFAULT 0,
    reported DOUBLE PRECISION NOT NULL
);
CREATE INDEX uploads_by_trial ON uploads (trial_id, id);

ALTER TABLE attempts ADD COLUMN identity TEXT;
CREATE INDEX attempts_by_identity ON attempts (identity);

CREATE TABLE metrics_of_ranks (
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    metric_group TEXT NOT NULL,
    step BIGINT NOT NULL,
    rank INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL,
    sequence BIGINT NOT NULL,
    archived SMALLINT NOT NULL DEFAULT 0,
    body TEXT NOT NULL,
    reported DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (trial_id, metric_group, step, rank)
);
INSERT INTO metrics_of_ranks (trial_id, metric_group, step, attempt, sequence, archived, body, reported)
    SELECT trial_id, metric_group, step, attempt, sequence, archived, body, reported FROM metrics;
DROP TABLE metrics;
ALTER TABLE metrics_of_ranks RENAME TO metrics;

CREATE TABLE samples_of_ranks (
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    attempt INTEGER NOT NULL,
    rank INTEGER NOT NULL DEFAULT 0,
    sequence BIGINT NOT NULL,
    metric_group TEXT NOT NULL,
    body TEXT NOT NULL,
    reported DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (trial_id, attempt, rank, sequence)
);
INSERT INTO samples_of_ranks (trial_id, attempt, sequence, metric_group, body, reported)
    SELECT trial_id, attempt, sequence, metric_group, body, reported FROM samples;
DROP TABLE samples;
ALTER TABLE samples_of_ranks RENAME TO samples;

ALTER TABLE trials ADD COLUMN rank_metadata TEXT NOT NULL DEFAULT '{{}}';
ALTER TABLE attempts ADD COLUMN warned_of_shared_metric SMALLINT NOT NULL DEFAULT 0;

CREATE TABLE store_identity (
    uuid TEXT PRIMARY KEY
);

CREATE TABLE publishing (
    uuid TEXT PRIMARY KEY,
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    attempt INTEGER NOT NULL,
    storage TEXT NOT NULL,
    since DOUBLE PRECISION NOT NULL
);
"""

# How the process of an attempt was started and how it ended. The reason of a failed trial is in `trials.reason`.
_SIXTH = """
ALTER TABLE attempts ADD COLUMN command TEXT;
ALTER TABLE attempts ADD COLUMN git_commit TEXT;
ALTER TABLE attempts ADD COLUMN exit_code INTEGER;
"""

# Stamps of a trial's reports, by which caches notice that they are outdated; see `store/substores/report_texts.py`.
_SEVENTH = """
ALTER TABLE trials ADD COLUMN changes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN rewrites BIGINT NOT NULL DEFAULT 0;
"""

# Reports that a later attempt repeats, kept for charts, and why each attempt ended. `metrics` has one report for a
# step: that of the newest attempt.
_EIGHTH = """
CREATE TABLE overwritten_metrics (
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    attempt INTEGER NOT NULL,
    metric_group TEXT NOT NULL,
    step BIGINT NOT NULL,
    rank INTEGER NOT NULL DEFAULT 0,
    body TEXT NOT NULL,
    reported DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (trial_id, attempt, metric_group, step, rank)
);
INSERT INTO overwritten_metrics (trial_id, attempt, metric_group, step, rank, body, reported)
    SELECT trial_id, attempt, metric_group, step, rank, body, reported FROM metrics WHERE archived = 1;

ALTER TABLE attempts ADD COLUMN reason TEXT;
"""

# The node of each rank of a trial that runs on a cluster, as a JSON list.
_NINTH = """
ALTER TABLE trials ADD COLUMN nodes TEXT;
"""

# When the process of a standalone run last showed that it is running; see `store/heartbeats.py`.
_TENTH = """
ALTER TABLE attempts ADD COLUMN heartbeat DOUBLE PRECISION;
"""

# Migrations are only appended: existing stores have applied the earlier ones, and would not notice a change of them.
MIGRATIONS: list[str] = [_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH, _SEVENTH, _EIGHTH, _NINTH, _TENTH]


def refuse_foreign(tables: set[str], place: str) -> None:
    """Raise `StoreError` if the database contains tables of another program."""
    if tables and VERSION_TABLE not in tables:
        raise StoreError(
            f"{place} holds the data of another program ({', '.join(sorted(tables)[:3])}): "
            "name another store with DET_STORE"
        )
