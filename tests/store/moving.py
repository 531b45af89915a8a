"""A store with rows of every kind, for tests that move it."""

from __future__ import annotations

import uuid
from typing import Any

from determined.store.experiment_changes import Change, ExperimentChange, TrialChange
from determined.store.experiment_records import JournalEntry
from determined.store.moving.format import moved_tables
from determined.store.open import opened_database
from determined.store.rows import EndRow, LogRow
from determined.store.store import Store
from tests.store.experiments import begin_managed, new_trial, with_trials
from tests.store.rows import begin, checkpoint, metric, upload

ODD = "../two\nlines 'quoted' \"; DROP TABLE trials; -- 😀 \x1b[31m"


def fill(store: Store) -> None:
    """Create an ended search, a waiting one, standalone runs that continue each other, a model and requests."""
    lease, trials = with_trials(store, 2, name=ODD, labels=[ODD, "two"])
    told = JournalEntry(1, {"event": "start"}, [{"action": "create", "number": 0}])
    store.experiments.commit(lease, Change(journal=(told,), snapshot={"created": 2}))
    saved = []
    for trial_id in trials:
        attempt = begin_managed(store, lease, trial_id, passed={"lr": trial_id, ODD: None})
        saved.append(checkpoint(attempt, 4))
        store.write(
            [
                metric(attempt, "training", 4, {"loss": float("nan"), ODD: 1}),
                metric(attempt, "validation", 4, {"error": 0.1 + trial_id, "other": float("inf")}),
                metric(attempt, "profiler", None, {"cpu": 1.5}),
                saved[-1],
                LogRow(trial_id, attempt.number, 0, 0, "stdout", ODD.replace("\n", " "), 5000.0, "INFO"),
                EndRow(trial_id, attempt.number, "completed", 6000.0, 12.5),
            ]
        )
        store.add_request(trial_id, "pause")
        change = TrialChange(trial_id, state="COMPLETED", ended=6001.0)
        store.experiments.commit(lease, Change(trials=(change,)))
    request = store.experiments.request(lease.experiment_id, "cancel")
    ended = ExperimentChange(state="COMPLETED", ended=6002.0, progress=1.0, last_request=request)
    store.experiments.commit(lease, Change(experiment=ended))
    store.experiments.release(lease)
    model = store.registry.create_model(ODD, labels=["a"], metadata={"k": [1]})
    store.registry.register(model.id, saved[0].checkpoint_id)
    first = begin(store, labels=("one", ODD), notes=ODD, command=f"python train.py {ODD}", git_commit="1" * 40)
    own = checkpoint(first, 2)
    end = EndRow(first.trial_id, 1, "failed", 7000.0, 1.0, reason=f"ValueError: {ODD}", exit_code=1)
    store.write([metric(first, "training", 2, {"loss": 1.0}), own, end])
    for rank in range(2):
        sent = upload(first, rank=rank, batches=2, files={"part.json": 10, "deep/er.json": rank})
        store.outputs.begin_upload(sent)
        store.outputs.finish_upload(sent.key)
    begin(store, checkpoint=saved[1].checkpoint_id, steps=4)
    held, _ = with_trials(store, 1, parent_id=lease.experiment_id, key=str(uuid.uuid4()))
    store.experiments.commit(held, Change(new_trials=(new_trial(1, source_checkpoint_id=saved[0].checkpoint_id),)))


def rows_of(place: str) -> dict[str, list[dict[str, Any]]]:
    """Return all rows that are moved, except the holders of leases."""
    with opened_database(place) as database:
        found = {}
        for name, table in moved_tables().items():
            key, columns = ", ".join(table.key), ", ".join(table.names)
            rows = database.execute(f"SELECT {columns} FROM {name} ORDER BY {key}")
            found[name] = [dict(zip(table.names, row, strict=True)) for row in rows]
        for row in found["leases"]:
            row.update(host=None, pid=None, process_started=None, since=None)
        return found
