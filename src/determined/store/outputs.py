"""Outputs of batch inference: the files that the ranks of a trial uploaded, and the rules about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

PROGRESS_METADATA = "batch_inference"
"""The key in the metadata of a checkpoint that holds the progress of batch inference."""


class NewUpload(NamedTuple):
    """One call of `upload_path()`: its files appear together."""

    key: str  # made by the run: recording it again with the same key changes nothing
    output: str  # the id of the trial's output, which the first upload records
    storage: str
    trial_id: int
    attempt: int
    rank: int
    batches: int  # how many batches of this rank had begun, over all attempts of the trial
    files: dict[str, int]  # name below the directory of the rank to size in bytes
    reported: float


class Upload(NamedTuple):
    """An upload as it is recorded; one that is not finished was interrupted or is under way."""

    key: str
    trial_id: int
    attempt: int
    rank: int
    batches: int
    files: dict[str, int]
    finished: bool
    reported: float

    @property
    def paths(self) -> dict[str, int]:
        """The same files by their names below the directory of the output."""
        return {f"{rank_directory(self.rank)}/{name}": size for name, size in self.files.items()}


class Output(NamedTuple):
    """The output of a trial with its finished uploads, the oldest first."""

    uuid: str
    trial_id: int
    storage: str
    borrowed: bool  # imported: its files belong to another store, and this one never removes them
    uploads: tuple[Upload, ...]
    replaced_by: dict[str, str]
    """Path to the key of an upload that may have replaced the file but is not finished: it was kept aside for that."""

    @property
    def resources(self) -> dict[str, int]:
        """Path to size of every file, sorted; of several uploads of one name the last one counts."""
        return dict(sorted(merged(self.uploads).items()))

    @property
    def batches(self) -> int:
        """The largest number of batches that a rank had begun when it uploaded something."""
        return max((upload.batches for upload in self.uploads), default=0)

    @property
    def reported(self) -> float | None:
        """When the last upload was finished."""
        return max((upload.reported for upload in self.uploads), default=None)


def rank_directory(rank: int) -> str:
    """Return the name of the directory of a rank inside an output."""
    return f"rank_{rank}"


def merged(uploads: Iterable[Upload]) -> dict[str, int]:
    """Return path to size of the files of uploads that come in their order."""
    return {path: size for upload in uploads for path, size in upload.paths.items()}


def unfinished_replacements(uploads: Iterable[Upload]) -> dict[str, str]:
    """Return path to key of the first unfinished upload after the last finished one with the same path."""
    found: dict[str, str] = {}
    for upload in uploads:
        for path in upload.paths:
            if upload.finished:
                found.pop(path, None)
            else:
                found.setdefault(path, upload.key)
    return found


class Outputs(Protocol):
    """A trial has at most one output. It is recorded with the first upload."""

    def find(self, trial_id: int) -> Output | None:
        """Return the output of a trial, or None if it has uploaded nothing."""
        ...

    def get(self, uuid: str) -> Output:
        """Return the output with that id; `StoreError` if there is none."""
        ...

    def of_checkpoint(self, checkpoint: str) -> Output | None:
        """Return the output of the trial that stored a checkpoint, or None."""
        ...

    def of_experiment(self, experiment_id: int) -> list[Output]:
        """Return the outputs of the trials of an experiment, in the order of the trials."""
        ...

    def all_uploads(self, trial_id: int) -> list[Upload]:
        """Return all uploads of a trial, those that were not finished as well, the oldest first."""
        ...

    def begin_upload(self, upload: NewUpload) -> None:
        """Record that the files of an upload are about to appear.

        `StoreError` if the trial was started again since: the processes of an old attempt may not add anything.
        """
        ...

    def finish_upload(self, key: str) -> bool:
        """Record that all files of an upload are in place; False if a newer attempt has removed it meanwhile."""
        ...

    def remove_upload(self, key: str) -> None:
        """Remove the record of an upload whose files are not there."""
        ...

    def withdraw(self, keys: Sequence[str]) -> None:
        """Record that uploads are not finished any more: their files are about to be removed."""
        ...

    def keep_files(self, key: str, names: Sequence[str]) -> None:
        """Reduce a withdrawn upload to some of its files, and record it as finished again."""
        ...
