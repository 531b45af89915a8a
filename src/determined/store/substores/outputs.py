"""The outputs of trials: the files that their ranks uploaded as results of batch inference."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from determined.errors import NotFoundException, StoreError
from determined.store.databases.base import Database
from determined.store.output_records import NewUpload, Output, Upload, unfinished_replacements
from determined.store.sql.columns import text

_OUTPUT = "o.uuid, o.trial_id, o.storage, o.borrowed"
_UPLOAD = "key, trial_id, attempt, rank, batches, files, finished, reported"


class Outputs:
    """The outputs of trials. A trial has at most one, which is recorded with its first upload."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, trial_id: int) -> Output | None:
        """Return the output of a trial, or None if it has uploaded nothing."""
        found = self._read("WHERE o.trial_id = ?", [trial_id])
        return found[0] if found else None

    def get(self, uuid: str) -> Output:
        """Return the output with this id. Raise `StoreError` if it does not exist."""
        found = self._read("WHERE o.uuid = ?", [text(uuid)])
        if not found:
            raise NotFoundException.of("output", uuid)
        return found[0]

    def of_checkpoint(self, checkpoint_id: str) -> Output | None:
        """Return the output of the trial that saved a checkpoint, or None."""
        found = self._read("JOIN checkpoints c ON c.trial_id = o.trial_id WHERE c.uuid = ?", [text(checkpoint_id)])
        return found[0] if found else None

    def of_experiment(self, experiment_id: int) -> list[Output]:
        """Return the outputs of the trials of an experiment, in the order of the trials."""
        return self._read(
            "JOIN trials t ON t.id = o.trial_id WHERE t.experiment_id = ? ORDER BY t.number", [experiment_id]
        )

    def all_uploads(self, trial_id: int) -> list[Upload]:
        """Return all uploads of a trial, including unfinished ones, oldest first."""
        found = self._database.execute(f"SELECT {_UPLOAD} FROM uploads WHERE trial_id = ? ORDER BY id", [trial_id])
        return [_upload(row) for row in found]

    def begin_upload(self, upload: NewUpload) -> None:
        """Record that the files of an upload are about to appear.

        Raise `StoreError` if the trial has been restarted: processes of an old attempt must not add files.
        """
        with self._database.transaction():
            # The trial's row is locked, so that no newer attempt can begin between this check and the commit.
            found = self._database.read_locked("SELECT attempt FROM trials WHERE id = ?", [upload.trial_id])
            if not found:
                raise NotFoundException.of("trial", upload.trial_id)
            if found[0][0] != upload.attempt:
                raise StoreError(
                    f"trial {upload.trial_id} was started again: attempt {upload.attempt} can upload nothing any more"
                )
            # Every rank adds the row with its first upload. All of them have the same id, which is checked below.
            self._database.insert(
                "outputs (trial_id, uuid, storage)",
                [(upload.trial_id, text(upload.output), text(upload.storage))],
                "DO NOTHING",
            )
            ((known,),) = self._database.execute("SELECT uuid FROM outputs WHERE trial_id = ?", [upload.trial_id])
            if known != upload.output:
                raise StoreError(f"the output of trial {upload.trial_id} is {known}, not {upload.output}")
            values = (
                upload.key,
                upload.trial_id,
                upload.attempt,
                upload.rank,
                upload.batches,
                json.dumps(upload.files),
                0,
                upload.reported,
            )
            self._database.insert(f"uploads ({_UPLOAD})", [values], "DO NOTHING")

    def finish_upload(self, key: str) -> bool:
        """Record that all files of an upload are in place. Return False if a newer attempt has removed the upload."""
        with self._database.transaction():
            self._database.execute("UPDATE uploads SET finished = 1 WHERE key = ?", [text(key)])
            # `execute` returns no number of changed rows, so whether the row still exists is asked.
            return bool(self._database.execute("SELECT 1 FROM uploads WHERE key = ?", [text(key)]))

    def remove_upload(self, key: str) -> None:
        """Delete the record of an upload whose files do not exist."""
        with self._database.transaction():
            self._database.execute("DELETE FROM uploads WHERE key = ?", [text(key)])

    def withdraw(self, keys: Sequence[str]) -> None:
        """Record that uploads are no longer finished, before their files are deleted."""
        with self._database.transaction():
            for key in keys:
                self._database.execute("UPDATE uploads SET finished = 0 WHERE key = ?", [text(key)])

    def keep_files(self, key: str, names: Sequence[str]) -> None:
        """Reduce a withdrawn upload to some of its files, and record it as finished again."""
        with self._database.transaction():
            # Locked, because the files are read, reduced and written back.
            ((files,),) = self._database.read_locked("SELECT files FROM uploads WHERE key = ?", [text(key)])
            kept = {name: size for name, size in json.loads(files).items() if name in names}
            self._database.execute(
                "UPDATE uploads SET files = ?, finished = 1 WHERE key = ?", [json.dumps(kept), text(key)]
            )

    def _read(self, rest: str, values: Sequence[Any]) -> list[Output]:
        """Return the outputs selected by an SQL suffix in which `o` is the output."""
        found = self._database.execute(f"SELECT {_OUTPUT} FROM outputs o {rest}", values)
        return [self._output(*row) for row in found]

    def _output(self, uuid: str, trial_id: int, storage: str, borrowed: int) -> Output:
        """Return an output with its uploads."""
        uploads = self.all_uploads(trial_id)
        finished = tuple(upload for upload in uploads if upload.finished)
        return Output(uuid, trial_id, storage, bool(borrowed), finished, unfinished_replacements(uploads))


def _upload(row: Sequence[Any]) -> Upload:
    """Build an `Upload` from a row."""
    key, trial_id, attempt, rank, batches, files, finished, reported = row
    return Upload(key, trial_id, attempt, rank, batches, json.loads(files), bool(finished), reported)
