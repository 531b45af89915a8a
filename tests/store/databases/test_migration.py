"""A store of the first version keeps all its rows when it is migrated to the present schema."""

from __future__ import annotations

import subprocess
import sys

import pytest

from determined.errors import StoreError
from determined.store import process
from determined.store.databases.schema import MIGRATIONS, VERSION_TABLE
from determined.store.open import open_database, open_store
from determined.store.store import Store
from tests.store.experiments import with_trials
from tests.store.rows import begin

FIRST_VERSION = """
INSERT INTO experiments (key, by_hand, program, config, created)
    VALUES ('a', 1, '/home/me/train.py', '{"name": "old"}', 1000), ('b', 1, '/home/me/other.py', '{}', 1001);
INSERT INTO trials (experiment_id, parent_id, hparams, attempt, phase, progress, metadata, created)
    VALUES (1, NULL, '{"lr": 0.5}', 2, 'training', 0.5, '{"mine": 1}', 1000), (2, 1, '{}', 1, '', NULL, '{}', 1001);
INSERT INTO attempts (key, trial_id, number, start_step, host, pid, process_started, run_dir, state, started, ended)
    VALUES ('a', 1, 1, 0, 'there', 1, 'x', '/runs/1', 'running', 2000, NULL),
           ('b', 1, 2, 5, 'there', 2, 'y', '/runs/2', 'completed', 2100, 2200),
           ('c', 2, 1, 0, 'there', 3, 'z', '/runs/3', 'stopped', 2300, 2400);
INSERT INTO metrics (trial_id, metric_group, step, attempt, sequence, archived, body, reported)
    VALUES (1, 'validation', 5, 1, 0, 0, '{"error": NaN}', 3000), (1, 'validation', 6, 1, 1, 1, '{"error": 1}', 3000);
INSERT INTO samples (trial_id, attempt, sequence, metric_group, body, reported) VALUES (1, 1, 2, 'cpu', '{}', 3000);
INSERT INTO checkpoints (uuid, trial_id, attempt, steps_completed, metadata, resources, storage, state, reported)
    VALUES ('c', 1, 1, 5, '{}', '{}', '/checkpoints', 'ACTIVE', 4000);
INSERT INTO logs (trial_id, attempt, rank, sequence, stream, body, written)
    VALUES (1, 1, 0, 0, 'stdout', 'hello', 6000);
INSERT INTO requests (trial_id, kind, created) VALUES (1, 'pause', 6000)
"""


@pytest.fixture
def old_place(place: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Create a store as the first version did."""
    with monkeypatch.context() as patch:
        patch.setattr("determined.store.databases.migrate.MIGRATIONS", MIGRATIONS[:1])
        database = open_store(place)._database
    for statement in FIRST_VERSION.split(";"):
        database.execute(statement)
    assert database.execute(f"SELECT version FROM {VERSION_TABLE}") == [(1,)]
    database.close()
    return place


def test_all_rows_are_still_there(old_place: str) -> None:
    store = open_store(old_place)
    newest, oldest = store.experiments.list()
    assert (oldest.id, oldest.is_standalone, oldest.name, oldest.state, oldest.ended) == (
        1,
        True,
        "old",
        "COMPLETED",
        2200.0,
    )
    assert (newest.id, newest.name, newest.state, newest.archived) == (2, "other.py", "PAUSED", False)
    (trial,) = store.experiments.trials(1)
    assert (trial.hparams, trial.phase, trial.progress, trial.steps_completed) == ({"lr": 0.5}, "training", 1.0, 5)
    assert (trial.latest_checkpoint, trial.started, trial.best) == ("c", 2000.0, None)
    assert [(run.trial_id, run.parent_id, run.attempt.number) for run in store.runs()] == [(2, 1, 1), (1, None, 2)]
    assert [(row.steps_completed, row.rank) for row in store.metrics(1, archived=True)] == [(5, 0), (6, 0)]
    assert [(row.rank, row.sequence) for row in store.samples(1)] == [(0, 2)]
    assert store.metadata(1) == {"mine": 1}
    assert [(log.text, log.level) for log in store.logs(1)] == [("hello", None)]
    assert [request.kind for request in store.requests(1)] == ["pause"]
    assert all(version.changes and version.rewrites for version in store.reports.versions([1, 2]))
    store.close()


def test_the_migrated_store_can_be_used(old_place: str) -> None:
    store: Store = open_store(old_place)
    attempt = begin(store, checkpoint="c", steps=5)
    assert (attempt.trial_id, attempt.number, attempt.metadata, attempt.last_request) == (1, 3, {"mine": 1}, 1)
    lease, trials = with_trials(store, 2)
    assert (lease.experiment_id, trials) == (3, [3, 4])
    store.close()


def test_nothing_is_changed_while_runs_of_the_older_version_are_active(old_place: str) -> None:
    run = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        database = open_database(old_place)
        database.execute(
            "UPDATE attempts SET host = ?, pid = ?, process_started = ? WHERE key = 'a'",
            [process.this_process().host, run.pid, process._started(run.pid)],
        )
        with pytest.raises(StoreError, match=rf"an older version still write.*process {run.pid}\b.*DET_STORE"):
            open_store(old_place)
        assert database.execute(f"SELECT version FROM {VERSION_TABLE}") == [(1,)]
        assert "outputs" not in database.tables()
    finally:
        run.communicate(b"\n")
    open_store(old_place).close()
    assert database.execute(f"SELECT version FROM {VERSION_TABLE}") == [(len(MIGRATIONS),)]
    database.close()


def test_a_store_keeps_its_identity_in_later_versions(old_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(old_place).close()
    monkeypatch.setattr(
        "determined.store.databases.migrate.MIGRATIONS", [*MIGRATIONS, "ALTER TABLE trials ADD COLUMN nickname TEXT"]
    )
    store = open_store(old_place)
    assert store.publishing.origin(1, 1).trial == 1
    store.close()
