"""Which trial a checkpoint or an upload belongs to: a worker of another trial may not change it."""

from __future__ import annotations

from determined.store.databases.base import Database
from determined.store.sql.columns import text


class Owners:
    """The trials that saved checkpoints and uploaded files. None means that the id or key is unknown."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_checkpoint(self, checkpoint_id: str) -> int | None:
        """Return the trial that saved a checkpoint, or is about to publish it."""
        found = self._database.execute(
            "SELECT trial_id FROM checkpoints WHERE uuid = ? UNION ALL SELECT trial_id FROM publishing WHERE uuid = ?",
            [text(checkpoint_id), text(checkpoint_id)],
        )
        return int(found[0][0]) if found else None

    def of_upload(self, key: str) -> int | None:
        """Return the trial that uploaded files under this key."""
        found = self._database.execute("SELECT trial_id FROM uploads WHERE key = ?", [text(key)])
        return int(found[0][0]) if found else None

    def is_publishing(self, checkpoint_id: str, trial_id: int, attempt: int) -> bool:
        """Return whether this attempt noted that it was about to publish the checkpoint, which is not recorded yet."""
        return bool(
            self._database.execute(
                "SELECT 1 FROM publishing WHERE uuid = ? AND trial_id = ? AND attempt = ?",
                [text(checkpoint_id), trial_id, attempt],
            )
        )
