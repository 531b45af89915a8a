"""A standalone run on another machine counts as running while its heartbeat is young."""

from __future__ import annotations

import time
from typing import Any

import pytest

from determined.errors import CheckpointInUse, TrialRunning
from determined.store import heartbeats
from determined.store.rows import BegunAttempt, HeartbeatRow
from determined.store.store import Store
from tests.store.rows import GONE, begin, checkpoint, start

NAMES: dict[str, Any] = {"external_experiment": "sweep", "external_trial": "a"}


def beat(store: Store, attempt: BegunAttempt, seconds_ago: float) -> None:
    store.write([HeartbeatRow(attempt.trial_id, attempt.number, time.time() - seconds_ago)])


def test_its_newest_checkpoint_stays(store: Store) -> None:
    attempt = begin(store)
    store.write([checkpoint(attempt, 1, "old"), checkpoint(attempt, 2, "new")])
    beat(store, attempt, 60)
    with pytest.raises(CheckpointInUse, match="checkpoint new is the newest of trial"):
        store.upkeep.mark_deleted(["old", "new"])
    beat(store, attempt, 600)
    store.upkeep.mark_deleted(["old", "new"])


def test_no_second_process_continues_it(store: Store) -> None:
    attempt = store.begin_attempt(start(**NAMES))
    beat(store, attempt, 60)
    with pytest.raises(
        TrialRunning, match=f"trial {attempt.trial_id}, .* is running in process 1 on {GONE.host}"
    ) as at:
        store.begin_attempt(start(**NAMES))
    assert at.value.trial_id == attempt.trial_id
    beat(store, attempt, 600)
    assert store.begin_attempt(start(**NAMES)).trial_id == attempt.trial_id


def test_who_starts_from_its_checkpoint_gets_another_trial(store: Store) -> None:
    attempt = begin(store)
    store.write([checkpoint(attempt, 1, "saved")])
    beat(store, attempt, 60)
    assert begin(store, checkpoint="saved").trial_id != attempt.trial_id
    beat(store, attempt, 600)
    assert begin(store, checkpoint="saved").trial_id == attempt.trial_id


def test_the_start_is_the_first_heartbeat(store: Store) -> None:
    now = time.time()
    attempt = store.begin_attempt(start()._replace(started=now))
    assert [row.heartbeat for row in store.attempts(attempt.trial_id)] == [now]


def test_a_clock_that_is_behind_does_not_prolong_the_watching(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = begin(store)
    beat(store, attempt, -86_400)
    monkeypatch.setattr(heartbeats, "_SECONDS_ALIVE", 0.5)
    assert heartbeats.is_active(store.attempts(attempt.trial_id)[-1])
    assert not heartbeats.is_active_after_watching(lambda: store.attempts(attempt.trial_id)[-1])
