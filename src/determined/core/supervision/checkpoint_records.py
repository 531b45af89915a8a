"""The records of a run's checkpoints: reported, found again, used, and marked as deleted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from determined.core.supervision.attempts import Attempts, RecordedRun
from determined.core.supervision.reports import CheckpointRecord
from determined.core.supervision.run_identity import NAME_VARIABLE, shown_identity
from determined.store.heartbeats import is_active_after_watching
from determined.store.process import this_process
from determined.store.records import Attempt, StoredCheckpoint, is_to_be_removed
from determined.store.rows import BegunAttempt, CheckpointRow, PublishingRow
from determined.store.workers.worker_store import WorkerStore
from determined.store.workers.writer import Writer

logger = logging.getLogger("determined.core")


class CheckpointRecords:
    """The checkpoints of a run in its store. Except where said otherwise, only the chief records and finds any."""

    def __init__(
        self,
        run: RecordedRun,
        writer: Writer[WorkerStore],
        store: WorkerStore,
        attempts: Attempts,
        *,
        begun: Callable[[], BegunAttempt],
    ) -> None:
        """Create the records; `begun` returns the current attempt, and begins it if no rank has."""
        self._run = run
        self._writer = writer
        self._attempts = attempts
        self._begun = begun
        self._origin: tuple[BegunAttempt, dict[str, Any]] | None = None
        self.store = store

    def origin(self) -> dict[str, Any]:
        """Return the description of this attempt that is stored in its checkpoints."""
        attempt = self._begun()
        # Asked once per attempt, because every checkpoint needs it.
        if self._origin is None or self._origin[0] != attempt:
            found = self.store.checkpoint_origin(attempt.trial_id, attempt.number)
            self._origin = attempt, found.plain()
        return self._origin[1]

    def publish(self, checkpoint_id: str) -> None:
        """Record that a checkpoint is about to become visible; all earlier reports are stored when this returns."""
        attempt = self._begun()
        row = PublishingRow(checkpoint_id, attempt.trial_id, attempt.number, self._run.storage, time.time())
        self._writer.put(row)
        # Flushed, because a run that resumes from this checkpoint does not report earlier steps again.
        self._writer.flush()

    def report(self, checkpoint: CheckpointRecord) -> None:
        """Write the row of a complete checkpoint and wait until it is stored."""
        attempt = self._begun()
        self._writer.put(
            CheckpointRow(
                checkpoint.checkpoint_id,
                attempt.trial_id,
                attempt.number,
                checkpoint.steps_completed,
                checkpoint.metadata,
                checkpoint.resources,
                self._run.storage,
                time.time(),
            )
        )
        # A checkpoint counts as saved only when its record is committed.
        self._writer.flush()

    def active(self) -> list[StoredCheckpoint]:
        """Return the checkpoints of this trial that are not deleted, newest first."""
        if not self._run.member.is_chief:
            return []
        known = self.store.checkpoints(self._begun().trial_id)
        return [checkpoint for checkpoint in known if checkpoint.state == "ACTIVE"]

    def in_use(self) -> set[str]:
        """Return the checkpoints that are registered or that other trials start from: they are never deleted."""
        if not self._run.member.is_chief:
            return set()
        managed = self._run.managed
        registered = set(self.store.registered_checkpoints(self._begun().experiment_id))
        return registered | (set() if managed is None else managed.checkpoints_in_use(self.store))

    def of_the_last_run(self) -> list[str]:
        """Return the ids of the checkpoints of this program's last run that is not running now, newest first.

        See `run_identity`. In a trial of a search these are the trial's own checkpoints. Raises ValueError if the
        program has no identity.
        """
        if not self._run.member.is_chief:
            return []

        if self._run.managed is not None:
            return [checkpoint.checkpoint_id for checkpoint in self.active()]

        identity, program = self._run.new.identity, self._run.new.program
        if identity is None:
            raise ValueError(
                "latest_checkpoint='latest' cannot tell which checkpoints belong to this program: it has no file of "
                f"its own ({program}). Give the run a name, for example name='my-run' in init() or "
                f"{NAME_VARIABLE}=my-run in the environment, or pass the id of a checkpoint"
            )

        # Earlier versions recorded only the path of the program and no name.
        known = self.store.latest_checkpoints(identity, None if self._run.named else program)
        for trial_id in dict.fromkeys(checkpoint.trial_id for checkpoint in known):
            # A run that is still running is not the last one: nothing has to resume it. But a second `fit` in this
            # process resumes from the first.
            newest = self._newest_attempt(trial_id)
            if newest.process == this_process() or not is_active_after_watching(
                partial(self._newest_attempt, trial_id)
            ):
                return [checkpoint.checkpoint_id for checkpoint in known if checkpoint.trial_id == trial_id]
            # After `kill -9` of torchrun its processes may be left, which the user does not expect.
            logger.warning(
                "latest_checkpoint='latest': trial %d of this program is still running, in process %d on %s, and is "
                "not resumed",
                trial_id,
                newest.process.pid,
                newest.process.host,
            )
        others = [] if known or self._run.named else self.store.identities(program)
        if others:
            logger.warning(
                "latest_checkpoint='latest': the checkpoints of this program were saved under another user or host "
                "(%s) and are not used. To share them, set %s to the same name in every run",
                ", ".join(shown_identity(other) for other in others[:3]),
                NAME_VARIABLE,
            )
        return []

    def _newest_attempt(self, trial_id: int) -> Attempt:
        """Return the newest attempt of a trial."""
        return self.store.attempts(trial_id)[-1]

    def report_use(self, checkpoint_id: str, version: tuple[int, int] | None = None) -> None:
        """Record that this run uses a checkpoint, optionally as a model version (model id and version number)."""
        if self._run.member.is_chief:
            self.store.record_use(self._begun().trial_id, checkpoint_id, version)

    def mark_unused_deleted(self, checkpoint_ids: Sequence[str]) -> list[str]:
        """Mark unused checkpoints as deleted before their files are deleted, and return them.

        The result includes checkpoints of this trial that were marked earlier and whose files may still exist.
        """
        if not self._run.member.is_chief:
            return []
        attempt = self._begun()
        marked = self.store.mark_unused_deleted(checkpoint_ids)
        # A process that was killed while it deleted files left them marked; no other process removes them.
        interrupted = [row.checkpoint_id for row in self.store.checkpoints(attempt.trial_id) if is_to_be_removed(row)]
        return list(dict.fromkeys([*marked, *interrupted]))

    def mark_own_deleted(self, checkpoint_id: str) -> None:
        """Mark a checkpoint as deleted before its files are deleted. Any rank may call this.

        Raises `CheckpointInUse` if the checkpoint is needed elsewhere, and StoreError on a machine that cannot reach
        the store of the run.
        """
        if not self._run.member.is_chief:
            # A rank on another machine would otherwise create an empty store there.
            self._attempts.check_reach()
        self.store.mark_own_deleted(checkpoint_id)

    def set_deleted(self, checkpoint_id: str) -> None:
        """Record that the files of a checkpoint were deleted. Any rank may call this."""
        self.store.set_checkpoint_deleted(checkpoint_id)
