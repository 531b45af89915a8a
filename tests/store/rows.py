"""Rows for tests of the store."""

from __future__ import annotations

import itertools
import json
import uuid
from typing import Any

from determined.store.output_records import NewUpload
from determined.store.process import Process, this_process
from determined.store.rows import (
    AttemptStart,
    BegunAttempt,
    CheckpointRow,
    MetricRow,
    NewRun,
)
from determined.store.store import Store

GONE = Process("another-host", 1, "long ago")

_sequence = itertools.count()


def start(
    *,
    checkpoint: str | None = None,
    steps: int = 0,
    previous: BegunAttempt | None = None,
    process: Process = GONE,
    program: str = "/home/me/train.py",
    **more: Any,
) -> AttemptStart:
    run = NewRun(program, "/runs/1", {"lr": 0.5}, {"name": "mine"}, created=1000.0, **more)
    return AttemptStart(str(uuid.uuid4()), run, process, 2000.0, checkpoint, steps, previous)


def alive() -> Process:
    return this_process()


def begin(store: Store, **arguments: Any) -> BegunAttempt:
    return store.begin_attempt(start(**arguments))


def metric(attempt: BegunAttempt, group: str, step: int | None, metrics: dict[str, Any]) -> MetricRow:
    return MetricRow(
        attempt.trial_id, attempt.number, next(_sequence), group, step, json.dumps(metrics), reported=3000.0
    )


def checkpoint(attempt: BegunAttempt, step: int, name: str | None = None) -> CheckpointRow:
    return CheckpointRow(
        name or str(uuid.uuid4()),
        attempt.trial_id,
        attempt.number,
        step,
        {"steps_completed": step},
        {"state_dict.pth": 5},
        "/checkpoints",
        reported=4000.0,
    )


def upload(attempt: BegunAttempt, *, rank: int = 0, batches: int = 1, files: dict[str, int] | None = None) -> NewUpload:
    """Return an upload to the output whose id is derived from the number of the trial."""
    return NewUpload(
        uuid.uuid4().hex,
        f"output-00000000-0000-4000-8000-{attempt.trial_id:012}",
        "/checkpoints",
        attempt.trial_id,
        attempt.number,
        rank,
        batches,
        {"part.json": 10} if files is None else files,
        reported=4000.0,
    )
