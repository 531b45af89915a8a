"""The store of the case: trials with many reports, and more without any."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator

REPORTS = 10_000


def values(number: int) -> Iterator[tuple[int, float]]:
    """Yield the steps and losses of a run."""
    chance = random.Random(number)
    for step in range(1, REPORTS + 1):
        yield step, math.exp(-step / 3000) + 0.05 * chance.random()


def fill(*, trials: int, more: int) -> None:
    """Write the rows of finished trials at once: through the library it would take an hour."""
    from bench.cases.listing import new_experiment, new_trial
    from determined.store.experiment_changes import Change, ExperimentChange, TrialChange
    from determined.store.open import opened_database
    from determined.store.process import this_process
    from determined.store.rows import AttemptStart, NewRun
    from determined.store.store import Store

    with opened_database() as database:
        store = Store(database)
        lease = store.experiments.acquire(store.experiments.create(new_experiment(0)), this_process())
        ids = store.experiments.commit(lease, Change(new_trials=tuple(map(new_trial, range(trials + more)))))
        changes = tuple(TrialChange(number, "RUNNING", allocation=f"{number}.1", runs=1) for number in ids[:trials])
        store.experiments.commit(lease, Change(trials=changes))
        for number in ids[:trials]:
            run = NewRun("", "/run", {}, {}, 1e9)
            key = f"{number}.1"
            store.begin_attempt(AttemptStart(key, run, this_process(), 1e9, allocation=(number, key)))
            with database.transaction():
                database.insert(
                    "metrics (trial_id, metric_group, step, attempt, sequence, archived, body, reported)",
                    [(number, "training", step, 1, step, 0, _body(loss), 1e9 + step) for step, loss in values(number)],
                    "DO NOTHING",
                )
                database.execute("UPDATE trials SET steps_completed = ?, changes = 1 WHERE id = ?", [REPORTS, number])
        ends = tuple(TrialChange(number, state="COMPLETED", ended=time.time()) for number in ids)
        ended = ExperimentChange(state="COMPLETED", ended=time.time())
        store.experiments.commit(lease, Change(trials=ends, experiment=ended))
        store.experiments.release(lease)


def _body(loss: float) -> str:
    return f'{{"loss": {loss}, "accuracy": {1 - loss / 2}}}'
