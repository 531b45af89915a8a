"""Store a checkpoint in the background while training continues."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

from determined.checkpoint_storage.base import Resources
from determined.core.checkpoints.forked_work import ForkedWork

logger = logging.getLogger("determined.core")

_SECONDS_FOR_REMOVING = 2.0  # deleting files that were written so far is quick, unless the storage hangs


class CheckpointUpload:
    """A checkpoint that is being stored.

    A forked child writes the files; a thread then commits and records the checkpoint.
    """

    def __init__(
        self,
        checkpoint_id: str,
        steps_completed: int,
        writing: ForkedWork,
        *,
        commit: Callable[[], Resources],
        announce: Callable[[Resources], None],
        abandon: Callable[[], None],
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.steps_completed = steps_completed
        self._writing = writing
        self._commit = commit
        self._announce = announce
        self._abandon = abandon
        self._failure: Exception | None = None
        # A daemon, because an upload that hangs must not keep the program from exiting.
        self._thread = threading.Thread(target=self._finish_upload, name="determined-storing", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether the checkpoint is stored or has failed."""
        return not self._thread.is_alive()

    @property
    def failure(self) -> Exception | None:
        """The error that prevented storing; None if there was none so far."""
        return self._failure

    def wait(self) -> None:
        """Wait until the checkpoint is stored; raise the error if it failed."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def give_up(self) -> None:
        """Stop writing and delete what was written. A checkpoint that is already complete is kept.

        Waits only briefly: an upload that hangs ends with the process, as after SIGKILL.
        """
        self._writing.give_up()
        # Bounded, because this runs while the program ends.
        self._thread.join(_SECONDS_FOR_REMOVING)

    def _finish_upload(self) -> None:
        """Wait for the child, commit and record the checkpoint; keep the error if a step fails. Runs in the thread."""
        try:
            self._writing.wait()
            resources = self._commit()
        except Exception as error:  # noqa: BLE001  (raised by `wait`)
            # Kept and not raised: an error raised in a thread does not reach the program.
            self._failure = not_saved(self.checkpoint_id, error)
            try:
                self._abandon()
            # The first error is the one to be raised; remains are removed by a later run.
            except OSError:
                logger.exception("the incomplete files of checkpoint %s could not be removed", self.checkpoint_id)
            return
        try:
            self._announce(resources)
        except Exception as error:  # noqa: BLE001  (raised by `wait`)
            self._failure = error


@contextlib.contextmanager
def saying_not_saved(checkpoint_id: str) -> Iterator[None]:
    """Prefix an OSError with the statement that the checkpoint was not saved."""
    try:
        yield
    except OSError as error:
        raise not_saved(checkpoint_id, error) from error


def not_saved(checkpoint_id: str, error: Exception) -> Exception:
    """Return an error that says first that the checkpoint was not saved, and then why."""
    told = f"checkpoint {checkpoint_id} was not saved"
    if isinstance(error, OSError):
        # A new object, because a message cannot be changed; the number keeps the subclass of OSError.
        new: Exception = OSError(error.errno, f"{told}: {error.strerror or error}", error.filename)
    else:
        new = RuntimeError(f"{told}: {error}")
    new.__cause__ = error
    return new
