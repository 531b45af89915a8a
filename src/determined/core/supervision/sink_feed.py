"""Forward what the store has written to the sinks (MLflow, W&B, Trackio) of a run."""

from __future__ import annotations

import atexit
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from determined.config.stored import StoredConfig
from determined.sinks.base import Begin, CheckpointReference, End, Event, Report, Sink
from determined.sinks.sender import Sender, close_all
from determined.store.records import Attempt
from determined.store.rows import (
    BegunAttempt,
    CheckpointRow,
    EndRow,
    MetricRow,
    NewRun,
    Row,
)

# A service that does not answer must not keep the program from ending.
_SECONDS_AT_THE_END = 10.0  # after a normal end there may be a backlog of reports to send
_SECONDS_IN_A_HURRY = 5.0  # the program is failing, and its error should be shown soon


class SinkFeed:
    """Turns committed rows into events for the sinks. Called by the writer's thread after each transaction.

    Events are sent only after the commit, so a service never shows data that the store does not have.
    """

    def __init__(self, sinks: Sequence[Sink], run: NewRun) -> None:
        self._senders = [Sender(sink) for sink in sinks]
        self._run = run
        self._pid = os.getpid()
        self._closed = False
        # Registered before the writer's exit function, which therefore runs first and passes on the last rows.
        atexit.register(self.close)

    def begin(self, attempt: BegunAttempt, first: Attempt) -> None:
        """Send the start of an attempt.

        `first` is the first attempt of its trial, which identifies the trial across stores.
        """
        config = StoredConfig(self._run.config)
        experiment = str(config.name or Path(self._run.program).stem)
        self._send(
            Begin(
                key=_key(first),
                name=f"{experiment}-{attempt.trial_id}",
                experiment=experiment,
                experiment_id=attempt.experiment_id,
                trial_id=attempt.trial_id,
                description=str(config.description),
                labels=tuple(config.labels),
                hparams=self._run.hparams,
                config=config.plain,
                directory=self._run.run_dir,
            )
        )

    def written(self, rows: Sequence[Row]) -> None:
        """Send the rows of a committed transaction."""
        # The end of an attempt must follow its reports, but rows come in any order.
        for row in sorted(rows, key=lambda row: isinstance(row, EndRow)):
            event = _event(row)
            if event is not None:
                self._send(event)

    def close(self, *, hurry: bool = False) -> None:
        """Send pending events for a limited time and close the sinks."""
        # A forked child must not close its parent's connections.
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        atexit.unregister(self.close)
        close_all(self._senders, _SECONDS_IN_A_HURRY if hurry else _SECONDS_AT_THE_END)

    def _send(self, event: Event) -> None:
        """Queue an event for every sink."""
        for sender in self._senders:
            sender.put(event)


def _event(row: Row) -> Event | None:
    """Return the event for a row, or None if sinks are not interested in it."""
    if isinstance(row, MetricRow) and row.steps_completed is not None:
        return Report(row.group, row.steps_completed, row.body, row.reported)
    if isinstance(row, CheckpointRow):
        return CheckpointReference(row.checkpoint_id, row.steps_completed, row.storage)
    if isinstance(row, EndRow):
        return End(row.state)
    return None


def _key(first: Attempt) -> str:
    """Return a key that identifies a trial across stores."""
    process = first.process
    said = f"{first.trial_id} {first.started!r} {process.host} {process.pid} {process.started}"
    # Not a random key: each attempt computes the same one, so that the service continues the run.
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]
