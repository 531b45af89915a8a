"""The checkpoints of an experiment's trials: find the newest undamaged one, and apply the retention policy."""

from __future__ import annotations

import logging
from functools import partial

from determined.checkpoint_storage import retention
from determined.checkpoint_storage.base import CheckpointStorage
from determined.checkpoint_storage.unrecorded import examine
from determined.config.secrets.masking import mask_secrets
from determined.errors import CheckpointNotFound, DeterminedError, InvalidCheckpointException
from determined.experiment.checkpoints.storage_lookup import configured_storage
from determined.experiment.runner.settings import Settings
from determined.store.records import StoredCheckpoint, is_to_be_removed
from determined.store.store import Store
from determined.store.workers.local_worker_store import LocalWorkerStore
from determined.store.workers.unrecorded import recover_unrecorded
from determined.store.workers.writer import Writer

logger = logging.getLogger("determined.experiment")


class TrialCheckpoints:
    """The checkpoints of an experiment's trials, as recorded in the store and as found in the storage."""

    def __init__(self, experiment_id: int, settings: Settings, writer: Writer[Store]) -> None:
        self._experiment_id = experiment_id
        self._settings = settings
        self._writer = writer
        self._opened: CheckpointStorage | None = None

    def newest_good(self, trial_id: int) -> tuple[str, int] | None:
        """Return id and step of a trial's newest undamaged checkpoint, or None; damaged ones are logged and skipped."""
        for checkpoint in self._active(trial_id):
            try:
                retention.verify(self._storage(), retention.candidate(checkpoint))
            # Damaged or missing ones are skipped, since an older one
            # is better than a failed start. Other errors are raised.
            except (InvalidCheckpointException, CheckpointNotFound) as error:
                logger.warning("trial %d does not resume from its newest checkpoint: %s", trial_id, error)
            else:
                return checkpoint.checkpoint_id, checkpoint.steps_completed
        return None

    def holds(self, trial_id: int, step: int) -> bool:
        """Return whether a trial's work up to this step is saved in a checkpoint."""
        # At least this step: a later checkpoint contains the work up to it.
        return any(checkpoint.steps_completed >= step for checkpoint in self._active(trial_id))

    def clean_up(self, settings: Settings) -> None:
        """Delete the checkpoints that the current policy does not keep. Called when all trials have ended.

        A failure is logged: it costs disk space, not the experiment.
        """
        # A checkpoint that is stored but not recorded would never be deleted, and could be the best one.
        self._record_published()
        block = settings.config.checkpoint_storage
        policy = retention.Policy(
            save_experiment_best=block.save_experiment_best,
            save_trial_best=block.save_trial_best,
            save_trial_latest=block.save_trial_latest,
            smaller_is_better=self._settings.smaller_is_better,
        )
        # Read anew, because the workers record checkpoints as well.
        known = self._writer.query(lambda store: store.experiments.checkpoints(self._experiment_id))
        rows = self._writer.query(lambda store: store.experiments.trials(self._experiment_id))
        sources = {row.source_checkpoint_id for row in rows}
        registered = self._writer.query(lambda store: store.registry.registered(self._experiment_id))
        stored = [
            retention.candidate(
                checkpoint,
                self._settings.metric,
                in_use=checkpoint.checkpoint_id in sources,
                registered=checkpoint.checkpoint_id in registered,
            )
            for checkpoint in reversed(known)
            # Others have no files, or not all of them.
            if checkpoint.state == "ACTIVE"
        ]
        if not stored:
            return
        try:
            # All trials have ended, so the latest checkpoint of none is needed to resume.
            done = retention.clean_up(
                self._storage(), stored, policy, ended={row.id for row in rows}, claim=self._mark_deleted
            )
        except (OSError, DeterminedError) as error:
            logger.warning("surplus checkpoints were not removed: %s", error)
            return
        # Recorded after the files are deleted, so that the next clean-up completes one that was killed in between.
        for checkpoint_id in done.removed:
            self._writer.query(partial(_set_deleted, checkpoint_id))

    def _mark_deleted(self, checkpoint_ids: list[str]) -> list[str]:
        """Mark unneeded checkpoints as deleted and return them.

        The check that nothing needs them and the mark are one transaction. The result includes checkpoints that were
        marked before a process was killed.
        """

        def ask(store: Store) -> list[str]:
            """Mark the checkpoints as deleted; return them, and those marked earlier whose files were not removed."""
            marked = store.upkeep.mark_unused_deleted(checkpoint_ids)
            cut_short = [
                row.checkpoint_id for row in store.experiments.checkpoints(self._experiment_id) if is_to_be_removed(row)
            ]
            return list(dict.fromkeys([*marked, *cut_short]))

        return self._writer.query(ask)

    def _record_published(self, trial_id: int | None = None) -> None:
        """Record checkpoints whose processes were killed before they could record them.

        Of one trial, which must not be running, or of all.
        """
        place = mask_secrets(self._storage().name)
        try:
            store = self._writer.queued(LocalWorkerStore)
            recover_unrecorded(store, place, partial(examine, self._storage()), trial_id)
        except OSError as error:
            logger.warning("unrecorded checkpoints could not be examined: %s", error)

    def _active(self, trial_id: int) -> list[StoredCheckpoint]:
        """Record what the processes of a trial could not record, and return its checkpoints that have files."""
        self._record_published(trial_id)
        known = self._writer.query(lambda store: store.checkpoints(trial_id))
        # Only these can be resumed from.
        return [checkpoint for checkpoint in known if checkpoint.state == "ACTIVE"]

    def _storage(self) -> CheckpointStorage:
        """Return the checkpoint storage, which is opened when it is first needed."""
        if self._opened is None:
            self._opened = configured_storage(self._settings.config)
        return self._opened


def _set_deleted(checkpoint_id: str, store: Store) -> None:
    """Record that the files of a checkpoint are deleted."""
    store.set_checkpoint_deleted(checkpoint_id)
