"""After a restart: remove the uploads that the restored progress does not cover."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from determined.checkpoint_storage.outputs import OutputStorage
from determined.store.base import Store
from determined.store.outputs import Upload, rank_directory

logger = logging.getLogger("determined.core")

T = TypeVar("T")


class Ask(Protocol):
    """Asks the store of the run."""

    def __call__(self, question: Callable[[Store], T], /) -> T: ...


def recover(storage: OutputStorage, ask: Ask, output: str, uploads: Sequence[Upload], batches: int) -> None:
    """Leave the output as it was when progress after `batches` batches of each rank was saved.

    An upload is covered if it was finished and was made when not more than `batches` batches of its rank had begun.
    The number of batches of a rank counts on over all attempts, also when the number of ranks changes, so the ranks of
    then and now need not be the same. Calling this again after an interruption completes it.
    """
    covered = {upload.key for upload in uploads if upload.finished and upload.batches <= batches}
    uncovered = [upload for upload in uploads if upload.key not in covered]
    if uncovered:
        # First of all, so that these uploads are not listed even if this process is killed while it removes them.
        ask(lambda store: store.outputs.withdraw([upload.key for upload in uncovered]))
    first: dict[str, int] = {}  # path to the place of the first covered upload that has it
    last: dict[str, int] = {}  # and of the last one
    for place, upload in enumerate(uploads):
        if upload.key in covered:
            for path in upload.paths:
                first.setdefault(path, place)
                last[path] = place
    for place, upload in reversed(list(enumerate(uploads))):
        if upload.key not in covered:
            # An upload that failed may have been followed by others: a file of theirs is not its own any more.
            own = [path for path in upload.paths if last.get(path, place) <= place]
            earlier = [path for path in own if first.get(path, place) < place]
            _remove(storage, ask, output, upload, own, earlier)
    storage.forget_all_replaced(output)
    if uncovered:
        logger.info(
            "removed %d uploads that the progress after %d batches of each rank does not cover",
            len(uncovered),
            batches,
        )


def _remove(storage: OutputStorage, ask: Ask, output: str, upload: Upload, own: list[str], earlier: list[str]) -> None:
    staying = storage.take_back(output, upload.key, own, earlier)
    if not staying or not upload.finished:
        ask(partial(_forget, upload.key))
        return
    # Progress beyond this upload was saved once, and the files that it had replaced were removed then. To remove these
    # as well would lose the results of batches that are not processed again.
    below = f"{rank_directory(upload.rank)}/"
    ask(partial(_keep, upload.key, [path.removeprefix(below) for path in staying]))
    logger.warning(
        "%s of output %s stay although they were uploaded after the progress that is restored: the files that they "
        "replaced were removed when later progress was saved",
        ", ".join(staying[:5]),
        output,
    )


def _forget(key: str, store: Store) -> None:
    store.outputs.remove_upload(key)


def _keep(key: str, names: list[str], store: Store) -> None:
    store.outputs.keep_files(key, names)
