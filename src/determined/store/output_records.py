"""Records of batch inference outputs: the files that the ranks of a trial uploaded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

PROGRESS_METADATA = "batch_inference"
"""The key in the metadata of a checkpoint that holds the progress of batch inference."""


class NewUpload(NamedTuple):
    """An upload to record: one call of `upload_path()`, whose files appear together."""

    key: str  # chosen by the run: recording it again with the same key changes nothing
    output: str  # the id of the trial's output, which the first upload records
    storage: str
    trial_id: int
    attempt: int
    rank: int
    batches: int  # number of batches that this rank had started, over all attempts of the trial
    files: dict[str, int]  # path below the directory of the rank -> size in bytes
    reported: float


class Upload(NamedTuple):
    """An upload as recorded. If it is not finished, it was interrupted or is in progress."""

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
        """Return the sizes of the files by their paths below the directory of the output."""
        return {f"{rank_directory(self.rank)}/{name}": size for name, size in self.files.items()}


class Output(NamedTuple):
    """The output of a trial with its finished uploads, oldest first."""

    uuid: str
    trial_id: int
    storage: str
    borrowed: bool  # imported: its files belong to another store, and this one never deletes them
    uploads: tuple[Upload, ...]
    replaced_by: dict[str, str]
    """Path -> key of an unfinished upload that may have replaced the file; the old file is then kept under that key."""

    @property
    def resources(self) -> dict[str, int]:
        """Return the size of every file by path, sorted.

        If a path was uploaded several times, the last upload counts.
        """
        return dict(sorted(merged(self.uploads).items()))

    @property
    def batches(self) -> int:
        """Return the largest number of batches that a rank had started when it uploaded files."""
        return max((upload.batches for upload in self.uploads), default=0)

    @property
    def reported(self) -> float | None:
        """Return when the last upload was finished, or None."""
        return max((upload.reported for upload in self.uploads), default=None)


# The name is part of the paths of stored files: with another one, existing outputs would not be found.
def rank_directory(rank: int) -> str:
    """Return the name of the directory of a rank inside an output."""
    return f"rank_{rank}"


def merged(uploads: Iterable[Upload]) -> dict[str, int]:
    """Return the sizes of the files of uploads by path; later uploads replace earlier ones."""
    return {path: size for upload in uploads for path, size in upload.paths.items()}


def unfinished_replacements(uploads: Iterable[Upload]) -> dict[str, str]:
    """Return, by path, the key of the first unfinished upload after the last finished one with the same path."""
    found: dict[str, str] = {}
    for upload in uploads:
        for path in upload.paths:
            if upload.finished:
                found.pop(path, None)
            else:
                found.setdefault(path, upload.key)
    return found
