"""What the store has written, told to the sinks of a run."""

from __future__ import annotations

import atexit
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from determined.sinks.base import Begin, CheckpointReference, End, Event, Report, Sink
from determined.sinks.sender import Sender, close_all
from determined.store.records import Attempt, BegunAttempt, CheckpointRow, EndRow, MetricRow, NewRun, Row

_SECONDS_AT_THE_END = 10.0
_SECONDS_IN_A_HURRY = 5.0


class Sinking:
    """Called by the writer's thread after each transaction: what a service shows, the store has."""

    def __init__(self, sinks: Sequence[Sink], run: NewRun) -> None:
        self._senders = [Sender(sink) for sink in sinks]
        self._run = run
        self._pid = os.getpid()
        self._closed = False
        # Before the writer's own, which therefore runs first and hands over the last rows.
        atexit.register(self.close)

    def begin(self, attempt: BegunAttempt, first: Attempt) -> None:
        """An attempt began; `first` is the first one of its trial, which tells trials of all stores apart."""
        config = self._run.config
        experiment = str(config.get("name") or Path(self._run.program).stem)
        self._tell(
            Begin(
                key=_key(first),
                name=f"{experiment}-{attempt.trial_id}",
                experiment=experiment,
                experiment_id=attempt.experiment_id,
                trial_id=attempt.trial_id,
                description=str(config.get("description") or ""),
                labels=_labels(config.get("labels")),
                hparams=self._run.hparams,
                config=config,
                directory=self._run.run_dir,
            )
        )

    def written(self, rows: Sequence[Row]) -> None:
        # An end comes behind the reports of its attempt, whatever their order among the rows.
        for row in sorted(rows, key=lambda row: isinstance(row, EndRow)):
            event = _event(row)
            if event is not None:
                self._tell(event)

    def close(self, *, hurry: bool = False) -> None:
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        atexit.unregister(self.close)
        close_all(self._senders, _SECONDS_IN_A_HURRY if hurry else _SECONDS_AT_THE_END)

    def _tell(self, event: Event) -> None:
        for sender in self._senders:
            sender.put(event)


def _labels(given: Any) -> tuple[str, ...]:
    """Nobody has checked the configuration of a run by hand."""
    return tuple(map(str, given)) if isinstance(given, (list, tuple)) else ()


def _event(row: Row) -> Event | None:
    if isinstance(row, MetricRow) and row.steps_completed is not None:
        return Report(row.group, row.steps_completed, row.body, row.reported)
    if isinstance(row, CheckpointRow):
        return CheckpointReference(row.uuid, row.steps_completed, row.storage)
    if isinstance(row, EndRow):
        return End(row.state)
    return None


def _key(first: Attempt) -> str:
    process = first.process
    said = f"{first.trial_id} {first.started!r} {process.host} {process.pid} {process.started}"
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]
