"""The rights of a job in the store of its runner: it may report for its own trial, and read what concerns it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from determined.errors import StoreError
from determined.store.rows import (
    AttemptStart,
    BegunAttempt,
    CheckpointRow,
    ComparedMetricRow,
    MetricRow,
    PublishingRow,
    Row,
)

if TYPE_CHECKING:
    from determined.store.output_records import NewUpload
    from determined.store.store import Store
    from determined.store.workers.unrecorded import Unrecorded


class JobRights:
    """The rights of one job, the current one of its trial.

    `check` refuses a call before it is carried out. `examined` records the attempts of the job, and refuses or filters
    results that concern other trials.
    """

    def __init__(self, store: Store, trial_id: int, job: str) -> None:
        self._store = store
        self._trial_id = trial_id
        self.job = job
        # The attempts that the job has begun or joined. No other job can have begun them, because the store refuses
        # attempts of jobs that are not current.
        self._attempts: set[int] = set()

    def check(self, call: str, arguments: list[Any]) -> None:
        """Raise StoreError if the job may not make this call."""
        check = _CHECKS.get(call)
        if check is None:
            raise StoreError(f"{call} is for standalone runs, and {self.job!r} is a job of an experiment")
        check(self, *arguments)

    def examined(self, call: str, result: Any) -> Any:
        """Return the result of a call as the job may see it."""
        if call == "begin_attempt":
            return self._own_attempt(result)
        if call == "newest_attempt" and result is not None:
            return result[0], self._own_attempt(result[1])
        if call == "unrecorded_checkpoints":
            # Those of other trials are left to their own workers and to the runner.
            found: list[Unrecorded] = result
            return [each for each in found if each.origin.trial == self._trial_id]
        return result

    @cached_property
    def _experiment_id(self) -> int:
        """The experiment of the trial; read when a call first needs it."""
        return self._store.experiments.trial(self._trial_id).experiment_id

    def _own_attempt(self, begun: BegunAttempt) -> BegunAttempt:
        """Record an attempt of the job and return it. Refuse one of another trial, which was only read by its key."""
        self._trial(begun.trial_id)
        self._attempts.add(begun.number)
        return begun

    def _trial(self, trial_id: int, *_: Any) -> None:
        """Refuse another trial."""
        if trial_id != self._trial_id:
            raise self._refused(f"trial {trial_id}")

    def _experiment(self, experiment_id: int, *_: Any) -> None:
        """Refuse another experiment."""
        if experiment_id != self._experiment_id:
            raise self._refused(f"experiment {experiment_id}")

    def _attempt(self, attempt: int) -> None:
        """Refuse an attempt that this job has not begun or joined."""
        if attempt not in self._attempts:
            raise self._refused(f"attempt {attempt} of trial {self._trial_id}")

    def _start(self, start: AttemptStart) -> None:
        """Refuse the start of an attempt for another allocation, or after an attempt of another trial."""
        # The store itself refuses an allocation that is not the newest.
        if start.allocation != (self._trial_id, self.job):
            raise self._refused(f"the allocation {start.allocation}")
        if start.previous is not None:
            self._trial(start.previous.trial_id)

    def _run_key(self, run_key: str) -> None:
        """Refuse a run key that is a pattern."""
        # A pattern would match runs whose keys the worker does not know.
        if "%" in run_key or "_" in run_key:
            raise self._refused(f"the run {run_key!r}")

    def _rows(self, rows: Sequence[Row]) -> None:
        """Refuse rows of another trial, attempt or checkpoint, and metrics that are no JSON object."""
        trial_id, attempts = self._trial_id, self._attempts
        for row in rows:
            # Compared here, and not by a call for each row: the runner does this for every report of every trial.
            if row.trial_id != trial_id:
                raise self._refused(f"trial {row.trial_id}")
            if isinstance(row, MetricRow):
                _refuse_unless_object(row.body)
            elif isinstance(row, ComparedMetricRow):
                continue
            elif isinstance(row, (CheckpointRow, PublishingRow)):
                self._known_checkpoint(row.checkpoint_id)
                if isinstance(row, CheckpointRow) and self._is_recovered(row):
                    continue
            if row.attempt not in attempts:
                self._attempt(row.attempt)

    def _is_recovered(self, row: CheckpointRow) -> bool:
        """Return whether a checkpoint is one that an earlier attempt of the trial published but did not record."""
        return row.attempt not in self._attempts and self._store.owners.is_publishing(
            row.checkpoint_id, row.trial_id, row.attempt
        )

    def _known_checkpoint(self, checkpoint_id: str) -> None:
        """Refuse a checkpoint of another trial. An unknown one has no trial, and the call decides what that means."""
        if self._store.owners.of_checkpoint(checkpoint_id) not in (None, self._trial_id):
            raise self._refused(f"checkpoint {checkpoint_id}")

    def _known_checkpoints(self, checkpoint_ids: Sequence[str]) -> None:
        """Refuse checkpoints of another trial."""
        for checkpoint_id in checkpoint_ids:
            self._known_checkpoint(checkpoint_id)

    def _known_upload(self, key: str) -> None:
        """Refuse an upload of another trial; an unknown one is allowed."""
        if self._store.owners.of_upload(key) not in (None, self._trial_id):
            raise self._refused(f"upload {key}")

    def _known_uploads(self, keys: Sequence[str]) -> None:
        """Refuse uploads of another trial."""
        for key in keys:
            self._known_upload(key)

    def _existing_upload(self, key: str, names: Sequence[str]) -> None:
        """Refuse an upload that is unknown or belongs to another trial."""
        if self._store.owners.of_upload(key) != self._trial_id:
            raise self._refused(f"upload {key}")

    def _new_upload(self, upload: NewUpload) -> None:
        """Refuse an upload for another trial or attempt, or with the key of an upload of another trial."""
        self._trial(upload.trial_id)
        self._attempt(upload.attempt)
        self._known_upload(upload.key)

    def _unrecorded(self, storage: str, trial_id: int | None) -> None:
        """Refuse to read the unrecorded checkpoints of another trial; `examined` filters a result for all trials."""
        if trial_id is not None:
            self._trial(trial_id)

    def _any_checkpoint(self, checkpoint_id: str) -> None:
        """Allow every checkpoint: a trial may continue from one of another trial, and ask about its output."""

    def _refused(self, what: str) -> StoreError:
        """Return the error for a call that concerns something else than the trial of the job."""
        return StoreError(f"{self.job!r} may not use {what}: it works for trial {self._trial_id}")


# By the name of the call. Calls for standalone runs (`latest_checkpoints`, `identities`) have no entry.
_CHECKS: dict[str, Callable[..., None]] = {
    "begin_attempt": JobRights._start,
    "newest_attempt": JobRights._run_key,
    "attempts": JobRights._trial,
    "trial": JobRights._trial,
    "write": JobRights._rows,
    "claim_shared_metric": JobRights._rows,
    "find_metric": JobRights._trial,
    "metadata": JobRights._trial,
    "best_validation": JobRights._experiment,
    "requests": JobRights._trial,
    "decision": JobRights._trial,
    "checkpoints": JobRights._trial,
    "registered_checkpoints": JobRights._experiment,
    "source_checkpoints": JobRights._experiment,
    "checkpoint_origin": JobRights._trial,
    # The checkpoint may be any: a trial may evaluate a model of another experiment.
    "record_use": JobRights._trial,
    "mark_unused_deleted": JobRights._known_checkpoints,
    "mark_own_deleted": JobRights._known_checkpoint,
    "set_checkpoint_deleted": JobRights._known_checkpoint,
    "unrecorded_checkpoints": JobRights._unrecorded,
    "forget_unrecorded": JobRights._known_checkpoint,
    "find_output": JobRights._trial,
    "output_of_checkpoint": JobRights._any_checkpoint,
    "uploads": JobRights._trial,
    "begin_upload": JobRights._new_upload,
    "finish_upload": JobRights._known_upload,
    "remove_upload": JobRights._known_upload,
    "withdraw_uploads": JobRights._known_uploads,
    "keep_uploaded_files": JobRights._existing_upload,
}


def _refuse_unless_object(body: str) -> None:
    """Raise StoreError unless the text of a report is one JSON object: readers of the store rely on it."""
    try:
        is_object = type(json.loads(body)) is dict
    except (ValueError, RecursionError):
        is_object = False
    # The store joins reports of one step as texts, without looking for white space.
    if not (is_object and body[0] == "{" and body[-1] == "}"):
        raise StoreError(f"a report of metrics must be a JSON object, got {body[:100]!r}")
