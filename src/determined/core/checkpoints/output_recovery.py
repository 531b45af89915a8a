"""Remove, after a restart, uploaded output files that the restored progress does not cover."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from determined.checkpoint_storage.outputs import OutputStorage
from determined.sentences import counted
from determined.store.output_records import Upload, rank_directory
from determined.store.workers.worker_store import WorkerStore

logger = logging.getLogger("determined.core")


def recover(storage: OutputStorage, store: WorkerStore, output: str, uploads: Sequence[Upload], batches: int) -> None:
    """Restore the output to its state when progress after `batches` batches per rank was saved.

    An upload is covered if it was finished and was made when at most `batches` batches of its rank had begun. The
    batches of a rank are counted across all attempts, also when the number of ranks changes, so the ranks need not be
    the same as before. Idempotent: a call after an interruption completes the work.
    """
    covered = {upload.key for upload in uploads if upload.finished and upload.batches <= batches}
    uncovered = [upload for upload in uploads if upload.key not in covered]
    if uncovered:
        # First, so that these uploads are no longer listed if this process is killed while it removes them.
        store.withdraw_uploads([upload.key for upload in uncovered])
    first: dict[str, int] = {}  # path to the index of the first covered upload that contains it
    last: dict[str, int] = {}  # path to the index of the last covered upload that contains it
    for place, upload in enumerate(uploads):
        if upload.key in covered:
            for path in upload.paths:
                first.setdefault(path, place)
                last[path] = place
    # Newest first, so that each upload restores what it had replaced, down to the covered state.
    for place, upload in reversed(list(enumerate(uploads))):
        if upload.key not in covered:
            # Later uploads may have replaced files of a failed upload: those files do not belong to it any more.
            own = [path for path in upload.paths if last.get(path, place) <= place]
            earlier = [path for path in own if first.get(path, place) < place]
            _remove(storage, store, output, upload, own, earlier)
    # Nothing that was replaced can be needed any more: all uploads that remain are covered.
    storage.delete_all_replaced(output)
    if uncovered:
        logger.info(
            "removed %s that the progress after %s of each rank does not cover",
            counted(len(uncovered), "upload"),
            counted(batches, "batch", "batches"),
        )


def _remove(
    storage: OutputStorage, store: WorkerStore, output: str, upload: Upload, own: list[str], earlier: list[str]
) -> None:
    """Remove the files of an uncovered upload and its record; files that cannot be restored are kept."""
    # Files first, then the record: after an interruption the record leads to the remaining files.
    staying = storage.revert(output, upload.key, own, earlier)
    if not staying or not upload.finished:
        store.remove_upload(upload.key)
        return
    # Progress beyond this upload was saved once, and the files it had replaced were deleted then. Deleting its files as
    # well would lose results of batches that are not processed again.
    below = f"{rank_directory(upload.rank)}/"
    store.keep_uploaded_files(upload.key, [path.removeprefix(below) for path in staying])
    logger.warning(
        "%s of output %s stay although they were uploaded after the progress that is restored: the files that they "
        "replaced were removed when later progress was saved",
        ", ".join(staying[:5]),
        output,
    )
