BEGIN TRANSACTION;
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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
    seconds DOUBLE PRECISION, identity TEXT, warned_of_shared_metric SMALLINT NOT NULL DEFAULT 0, command TEXT, git_commit TEXT, exit_code INTEGER, reason TEXT, heartbeat DOUBLE PRECISION,
    UNIQUE (trial_id, number)
);
INSERT INTO "attempts" VALUES(1,'a',1,1,0,'there',1,'x','/runs/1','running',2000.0,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(2,'b',1,2,5,'there',2,'y','/runs/2','completed',2100.0,2200.0,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(3,'c',2,1,0,'there',3,'z','/runs/3','stopped',2300.0,2400.0,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE checkpoint_uses (
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    checkpoint TEXT NOT NULL REFERENCES checkpoints (uuid),
    model_version BIGINT REFERENCES model_versions (id),
    since DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (trial_id, checkpoint)
);
CREATE TABLE checkpoints (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL UNIQUE,
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    attempt INTEGER NOT NULL,
    steps_completed BIGINT NOT NULL,
    metadata TEXT NOT NULL,
    resources TEXT NOT NULL,
    storage TEXT NOT NULL,
    state TEXT NOT NULL,
    reported DOUBLE PRECISION NOT NULL
, borrowed SMALLINT NOT NULL DEFAULT 0);
INSERT INTO "checkpoints" VALUES(1,'c',1,1,5,'{}','{}','/checkpoints','ACTIVE',4000.0,0);
CREATE TABLE determined_schema (version INTEGER NOT NULL);
INSERT INTO "determined_schema" VALUES(10);
CREATE TABLE experiment_requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    experiment_id BIGINT NOT NULL REFERENCES experiments (id),
    trial_id BIGINT REFERENCES trials (id),
    kind TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL
);
CREATE TABLE experiments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    by_hand SMALLINT NOT NULL,
    program TEXT NOT NULL,
    config TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL
, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '', labels TEXT NOT NULL DEFAULT '[]', state TEXT, progress DOUBLE PRECISION, reason TEXT, seed BIGINT NOT NULL DEFAULT 0, original TEXT NOT NULL DEFAULT '', code_dir TEXT NOT NULL DEFAULT '', owner TEXT NOT NULL DEFAULT '', archived SMALLINT NOT NULL DEFAULT 0, parent_id BIGINT REFERENCES experiments (id), ended DOUBLE PRECISION, metric TEXT, smaller_is_better SMALLINT NOT NULL DEFAULT 1, last_request BIGINT NOT NULL DEFAULT 0, notes TEXT NOT NULL DEFAULT '', external_id TEXT, borrowed SMALLINT NOT NULL DEFAULT 0);
INSERT INTO "experiments" VALUES(1,'a',1,'/home/me/train.py','{"name": "old"}',1000.0,'','','[]',NULL,NULL,NULL,0,'','','',0,NULL,NULL,NULL,1,0,'',NULL,0);
INSERT INTO "experiments" VALUES(2,'b',1,'/home/me/other.py','{}',1001.0,'','','[]',NULL,NULL,NULL,0,'','','',0,NULL,NULL,NULL,1,0,'',NULL,0);
CREATE TABLE journal (
    experiment_id BIGINT NOT NULL REFERENCES experiments (id),
    sequence BIGINT NOT NULL,
    event TEXT NOT NULL,
    actions TEXT NOT NULL,
    PRIMARY KEY (experiment_id, sequence)
);
CREATE TABLE leases (
    experiment_id BIGINT PRIMARY KEY REFERENCES experiments (id),
    token BIGINT NOT NULL DEFAULT 0,
    heartbeat BIGINT NOT NULL DEFAULT 0,
    host TEXT,
    pid BIGINT,
    process_started TEXT,
    since DOUBLE PRECISION
);
CREATE TABLE logs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    attempt INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    sequence BIGINT NOT NULL,
    stream TEXT NOT NULL,
    body TEXT NOT NULL,
    written DOUBLE PRECISION NOT NULL, level TEXT,
    UNIQUE (trial_id, attempt, rank, sequence)
);
INSERT INTO "logs" VALUES(1,1,1,0,0,'stdout','hello',6000.0,NULL);
CREATE TABLE "metrics" (
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
INSERT INTO "metrics" VALUES(1,'validation',5,0,1,0,0,'{"error": NaN}',3000.0);
INSERT INTO "metrics" VALUES(1,'validation',6,0,1,1,1,'{"error": 1}',3000.0);
CREATE TABLE model_versions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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
CREATE TABLE models (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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
CREATE TABLE outputs (
    trial_id BIGINT PRIMARY KEY REFERENCES trials (id),
    uuid TEXT NOT NULL UNIQUE,
    storage TEXT NOT NULL,
    borrowed SMALLINT NOT NULL DEFAULT 0
);
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
INSERT INTO "overwritten_metrics" VALUES(1,1,'validation',6,0,'{"error": 1}',3000.0);
CREATE TABLE publishing (
    uuid TEXT PRIMARY KEY,
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    attempt INTEGER NOT NULL,
    storage TEXT NOT NULL,
    since DOUBLE PRECISION NOT NULL
);
CREATE TABLE queue (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    experiment_id BIGINT NOT NULL UNIQUE REFERENCES experiments (id),
    host TEXT NOT NULL,
    owner TEXT NOT NULL,
    priority INTEGER NOT NULL,
    slots INTEGER,
    max_trials INTEGER,
    added DOUBLE PRECISION NOT NULL
);
CREATE TABLE requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    kind TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL
);
INSERT INTO "requests" VALUES(1,1,'pause',6000.0);
CREATE TABLE "samples" (
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    attempt INTEGER NOT NULL,
    rank INTEGER NOT NULL DEFAULT 0,
    sequence BIGINT NOT NULL,
    metric_group TEXT NOT NULL,
    body TEXT NOT NULL,
    reported DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (trial_id, attempt, rank, sequence)
);
INSERT INTO "samples" VALUES(1,1,0,2,'cpu','{}',3000.0);
CREATE TABLE snapshots (
    experiment_id BIGINT PRIMARY KEY REFERENCES experiments (id),
    sequence BIGINT NOT NULL,
    body TEXT NOT NULL
);
CREATE TABLE store_identity (
    uuid TEXT PRIMARY KEY
);
INSERT INTO "store_identity" VALUES('11111111-2222-4333-8444-555555555555');
CREATE TABLE trials (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    experiment_id BIGINT NOT NULL REFERENCES experiments (id),
    parent_id BIGINT REFERENCES trials (id),
    hparams TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    phase TEXT NOT NULL DEFAULT '',
    progress DOUBLE PRECISION,
    metadata TEXT NOT NULL DEFAULT '{}',
    early_exit TEXT,
    stop_acknowledged SMALLINT NOT NULL DEFAULT 0,
    created DOUBLE PRECISION NOT NULL
, number INTEGER NOT NULL DEFAULT 0, request_id TEXT NOT NULL DEFAULT '', seed BIGINT NOT NULL DEFAULT 0, state TEXT, goal DOUBLE PRECISION, rungs TEXT NOT NULL DEFAULT '[]', bracket INTEGER NOT NULL DEFAULT 0, source TEXT, allocation TEXT NOT NULL DEFAULT '', last_request BIGINT NOT NULL DEFAULT 0, runs INTEGER NOT NULL DEFAULT 0, restarts INTEGER NOT NULL DEFAULT 0, reason TEXT, ended DOUBLE PRECISION, steps_completed BIGINT NOT NULL DEFAULT 0, best_metric DOUBLE PRECISION, best_step BIGINT, external_id TEXT, started DOUBLE PRECISION, passed_hparams TEXT, follows_operations SMALLINT NOT NULL DEFAULT 0, rank_metadata TEXT NOT NULL DEFAULT '{}', changes BIGINT NOT NULL DEFAULT 0, rewrites BIGINT NOT NULL DEFAULT 0, nodes TEXT);
INSERT INTO "trials" VALUES(1,1,NULL,'{"lr": 0.5}',2,'training',0.5,'{"mine": 1}',NULL,0,1000.0,0,'',0,NULL,NULL,'[]',0,NULL,'',0,0,0,NULL,NULL,5,NULL,NULL,NULL,NULL,NULL,0,'{}',4611686018427387905,4611686018427387906,NULL);
INSERT INTO "trials" VALUES(2,2,1,'{}',1,'',NULL,'{}',NULL,0,1001.0,0,'',0,NULL,NULL,'[]',0,NULL,'',0,0,0,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,0,'{}',4611686018427387905,4611686018427387906,NULL);
CREATE TABLE uploads (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    attempt INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    batches BIGINT NOT NULL,
    files TEXT NOT NULL,
    finished SMALLINT NOT NULL DEFAULT 0,
    reported DOUBLE PRECISION NOT NULL
);
CREATE INDEX experiments_by_program ON experiments (program);
CREATE INDEX checkpoints_by_trial ON checkpoints (trial_id);
CREATE INDEX requests_by_trial ON requests (trial_id);
CREATE UNIQUE INDEX trials_by_number ON trials (experiment_id, number);
CREATE INDEX trials_by_metric ON trials (experiment_id, best_metric);
CREATE INDEX experiment_requests_in_order ON experiment_requests (experiment_id, id);
CREATE INDEX logs_in_order ON logs (trial_id, id);
CREATE INDEX experiments_by_parent ON experiments (parent_id);
CREATE INDEX trials_by_parent ON trials (parent_id);
CREATE INDEX trials_by_source ON trials (source);
CREATE INDEX attempts_by_run_dir ON attempts (run_dir);
CREATE INDEX model_versions_by_checkpoint ON model_versions (checkpoint);
CREATE UNIQUE INDEX experiments_by_external_id ON experiments (external_id);
CREATE UNIQUE INDEX trials_by_external_id ON trials (experiment_id, external_id);
CREATE INDEX checkpoint_uses_by_checkpoint ON checkpoint_uses (checkpoint);
CREATE INDEX uploads_by_trial ON uploads (trial_id, id);
CREATE INDEX attempts_by_identity ON attempts (identity);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('experiments',2);
INSERT INTO "sqlite_sequence" VALUES('trials',2);
INSERT INTO "sqlite_sequence" VALUES('attempts',3);
INSERT INTO "sqlite_sequence" VALUES('checkpoints',1);
INSERT INTO "sqlite_sequence" VALUES('logs',1);
INSERT INTO "sqlite_sequence" VALUES('requests',1);
COMMIT;
