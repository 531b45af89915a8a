"""The objects of checkpoints in a bucket, and the markers of transfers in progress, by which killed ones are found."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta

from determined.checkpoint_storage import transfer
from determined.checkpoint_storage.base import METADATA_FILE, checked_id
from determined.checkpoint_storage.bucket import Bucket, Entry

logger = logging.getLogger("determined.checkpoint_storage")

# One marker object per upload or deletion in progress. Ids cannot begin with a dot, so this prefix cannot collide with
# one. Without these markers, leftovers could only be found by listing the complete bucket.
UNFINISHED = ".unfinished"
# A younger upload may still be running in another process.
_GIVEN_UP_AFTER = timedelta(days=1)


def object_key(checkpoint_id: str, name: str) -> str:
    """Return the name in the bucket of a file of a checkpoint."""
    return f"{checkpoint_id}/{name}"


class CheckpointObjects:
    """Lists and deletes the objects of checkpoints, and cleans up after killed uploads and deletions."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def sizes(self, checkpoint_id: str) -> dict[str, int]:
        """Return the sizes of the objects of a checkpoint, by name."""
        return {
            entry.key.removeprefix(f"{checkpoint_id}/"): entry.size for entry in self._bucket.entries(checkpoint_id)
        }

    def note_begin(self, checkpoint_id: str) -> None:
        """Store a marker that an upload or deletion of this checkpoint is in progress."""
        self._bucket.put(f"{UNFINISHED}/{checkpoint_id}", b"")

    def note_end(self, checkpoint_id: str) -> None:
        """Delete the marker that an upload or deletion of this checkpoint is in progress; a failure is only logged."""
        try:
            self._bucket.delete(f"{UNFINISHED}/{checkpoint_id}")
        # A marker that stays is harmless: the metadata exists, so `collect` deletes only the marker.
        except OSError as error:
            logger.warning(
                "the marker of the finished transfer of checkpoint %s could not be deleted yet: %s",
                checkpoint_id,
                error,
            )

    def remove(self, checkpoint_id: str, objects: Iterable[str]) -> None:
        """Delete objects, metadata first, so that an interrupted deletion leaves no checkpoint that looks complete."""
        self._bucket.delete(object_key(checkpoint_id, METADATA_FILE))
        transfer.delete(self._bucket, [object_key(checkpoint_id, name) for name in objects])

    def collect(self, now: Entry) -> None:
        """Delete what killed processes left unfinished a day ago. Only times of the server are compared."""
        # One request lists all markers, however many checkpoints the bucket has.
        for note in self._bucket.entries(UNFINISHED):
            if now.modified - note.modified < _GIVEN_UP_AFTER:
                continue
            checkpoint_id = note.key.removeprefix(f"{UNFINISHED}/")
            objects = self.sizes(checked_id(checkpoint_id))
            # With metadata the upload was finished, and only its marker was not deleted.
            if METADATA_FILE not in objects:
                logger.info("removing an unfinished checkpoint: %s in %s", checkpoint_id, self._bucket.shown)
                self.remove(checkpoint_id, objects)
            self.note_end(checkpoint_id)
