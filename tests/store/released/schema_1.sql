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
    seconds DOUBLE PRECISION,
    UNIQUE (trial_id, number)
);
INSERT INTO "attempts" VALUES(1,'a',1,1,0,'there',1,'x','/runs/1','running',2000.0,NULL,NULL);
INSERT INTO "attempts" VALUES(2,'b',1,2,5,'there',2,'y','/runs/2','completed',2100.0,2200.0,NULL);
INSERT INTO "attempts" VALUES(3,'c',2,1,0,'there',3,'z','/runs/3','stopped',2300.0,2400.0,NULL);
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
);
INSERT INTO "checkpoints" VALUES(1,'c',1,1,5,'{}','{}','/checkpoints','ACTIVE',4000.0);
CREATE TABLE determined_schema (version INTEGER NOT NULL);
INSERT INTO "determined_schema" VALUES(1);
CREATE TABLE experiments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    by_hand SMALLINT NOT NULL,
    program TEXT NOT NULL,
    config TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL
);
INSERT INTO "experiments" VALUES(1,'a',1,'/home/me/train.py','{"name": "old"}',1000.0);
INSERT INTO "experiments" VALUES(2,'b',1,'/home/me/other.py','{}',1001.0);
CREATE TABLE logs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    attempt INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    sequence BIGINT NOT NULL,
    stream TEXT NOT NULL,
    body TEXT NOT NULL,
    written DOUBLE PRECISION NOT NULL,
    UNIQUE (trial_id, attempt, rank, sequence)
);
INSERT INTO "logs" VALUES(1,1,1,0,0,'stdout','hello',6000.0);
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
INSERT INTO "metrics" VALUES(1,'validation',5,1,0,0,'{"error": NaN}',3000.0);
INSERT INTO "metrics" VALUES(1,'validation',6,1,1,1,'{"error": 1}',3000.0);
CREATE TABLE requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    kind TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL
);
INSERT INTO "requests" VALUES(1,1,'pause',6000.0);
CREATE TABLE samples (
    trial_id BIGINT NOT NULL REFERENCES trials (id),
    attempt INTEGER NOT NULL,
    sequence BIGINT NOT NULL,
    metric_group TEXT NOT NULL,
    body TEXT NOT NULL,
    reported DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (trial_id, attempt, sequence)
);
INSERT INTO "samples" VALUES(1,1,2,'cpu','{}',3000.0);
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
);
INSERT INTO "trials" VALUES(1,1,NULL,'{"lr": 0.5}',2,'training',0.5,'{"mine": 1}',NULL,0,1000.0);
INSERT INTO "trials" VALUES(2,2,1,'{}',1,'',NULL,'{}',NULL,0,1001.0);
CREATE INDEX experiments_by_program ON experiments (program);
CREATE INDEX trials_by_experiment ON trials (experiment_id);
CREATE INDEX checkpoints_by_trial ON checkpoints (trial_id);
CREATE INDEX requests_by_trial ON requests (trial_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('experiments',2);
INSERT INTO "sqlite_sequence" VALUES('trials',2);
INSERT INTO "sqlite_sequence" VALUES('attempts',3);
INSERT INTO "sqlite_sequence" VALUES('checkpoints',1);
INSERT INTO "sqlite_sequence" VALUES('logs',1);
INSERT INTO "sqlite_sequence" VALUES('requests',1);
COMMIT;
