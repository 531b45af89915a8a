"""The attempt of a trial to which a rank's reports belong, and the rank's place in the run."""

from __future__ import annotations

import json
import socket
import time
from typing import Any, NamedTuple

from determined.core.supervision.managed import Managed
from determined.errors import StoreError, TrialRunning
from determined.store.heartbeats import is_active_after_watching
from determined.store.process import Process, on_this_machine
from determined.store.rows import AttemptStart, BegunAttempt, NewRun
from determined.store.workers.local_worker_store import is_shared, store_exists
from determined.store.workers.worker_store import WorkerStore


class Member(NamedTuple):
    """A rank of a run: the key and the chief process that all ranks share, and the rank's own number."""

    run_key: str
    chief: Process
    rank: int
    size: int

    @property
    def is_chief(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0


class RecordedRun(NamedTuple):
    """A run as one of its ranks records it. Nothing of this changes while it runs."""

    new: NewRun
    member: Member
    place: str  # of the store
    storage: str  # the name of the checkpoint storage, secrets masked
    managed: Managed | None = None  # the connection to the runner, for a trial of a search
    named: bool = False  # the user gave the run a name, which identifies its program


class StoreOutOfReach(StoreError):
    """The store of the run is a file on another machine."""


class Attempts:
    """Begins the attempts of a run in the store, or joins attempts that another rank has begun.

    All ranks compute the same key for an attempt, and the store creates one attempt per key: the first rank to report
    begins it, the others join it. No rank waits for another one, so a slow store delays a collective but cannot block
    it forever.
    """

    def __init__(self, store: WorkerStore, run: RecordedRun) -> None:
        self._store = store
        self._place = run.place
        self._run = run.new
        self._member = run.member
        self._managed = run.managed
        # Every rank counts attempts in the same way. Reports before the first begin_attempt() belong to attempt 0.
        self._number = 0
        # A script that resumes does not say from which step: reports of earlier steps are kept.
        self._start: tuple[str | None, int] = (None, 0 if run.managed is None else run.managed.steps_completed)

    def start_another(self, checkpoint: str | None, steps_completed: int) -> None:
        """Let the next attempt start from this checkpoint and step. With several ranks every rank calls this."""
        self._number += 1
        self._start = (checkpoint, steps_completed)

    def find(self) -> BegunAttempt | None:
        """Return the newest attempt of the run if any rank has begun one; nothing is created."""
        if not store_exists(self._place):
            return None
        found = self._store.newest_attempt(self._member.run_key)
        return None if found is None else found[1]

    def begin_or_join(self, previous: BegunAttempt | None) -> tuple[BegunAttempt, bool]:
        """Return the attempt to which reports belong from now on, and whether this rank has begun it."""
        if not self._member.is_chief:
            self.check_reach()
        # Join the newest attempt of the run if it is the current one; begin the next attempt otherwise.
        # A single rank needs no query: no other rank can have begun an attempt.
        newest = None if self._member.size == 1 else self._store.newest_attempt(self._member.run_key)
        if newest is not None:
            key, attempt = newest
            # The number of the attempt is the end of its key: another rank may already be in a later one.
            if int(key.rpartition("-")[2]) >= self._number:
                return attempt, False
            previous = attempt
        start = self._next_start(previous)
        try:
            return self._store.begin_attempt(start), True
        except TrialRunning as error:
            trial_id = error.trial_id
            if is_active_after_watching(lambda: self._store.attempts(trial_id)[-1]):
                raise
            return self._store.begin_attempt(start), True

    def check_reach(self) -> None:
        """Raise StoreOutOfReach if the store is a file on the chief's machine only.

        Without this check a rank on another machine would create a separate store and a separate run there.
        """
        # A file that contains this run's attempt is on a shared file system.
        if on_this_machine(self._member.chief) or is_shared(self._place) or self.find() is not None:
            return
        raise StoreOutOfReach(
            f"what rank {self._member.rank} on {socket.gethostname()} reports cannot be stored: the store of this run "
            f"is a file on {self._member.chief.host}; let DET_STORE name a PostgreSQL server that both can reach"
        )

    def _next_start(self, previous: BegunAttempt | None) -> AttemptStart:
        """Return the start of the next attempt, as it is recorded."""
        checkpoint, steps_completed = self._start
        return AttemptStart(
            key=f"{self._member.run_key}-{self._number}",
            run=_as_plain_data(self._run),
            process=self._member.chief,
            started=time.time(),
            checkpoint=checkpoint,
            steps_completed=steps_completed,
            previous=previous,
            allocation=None if self._managed is None else (self._managed.trial_id, self._managed.key),
        )


def _as_plain_data(run: NewRun) -> NewRun:
    """Return a run whose hyperparameters and configuration are JSON: other objects are replaced by their `repr`.

    A program may pass any object to `init()`, but the store may be in another process.
    """
    return run._replace(
        hparams=_as_json(run.hparams),
        config=_as_json(run.config),
        passed_hparams=None if run.passed_hparams is None else _as_json(run.passed_hparams),
    )


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as JSON data; objects that JSON does not have become their `repr`."""
    plain: dict[str, Any] = json.loads(json.dumps(values, default=repr))
    return plain
