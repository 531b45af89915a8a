"""The lineage of checkpoints: which runs used which, for example to evaluate a model."""

from __future__ import annotations

import time

from determined.errors import NotFoundException
from determined.store.databases.base import Database
from determined.store.sql.columns import text

_USES = "checkpoint_uses (trial_id, checkpoint, model_version, since)"
# A later use without a version does not erase the version under which the checkpoint was used before.
_KNOWN = """(trial_id, checkpoint) DO UPDATE SET
    model_version = coalesce(excluded.model_version, checkpoint_uses.model_version)"""


class Lineage:
    """The uses of checkpoints by runs. An unknown id raises a `StoreError` that names it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record_use(self, trial_id: int, checkpoint_id: str, version: tuple[int, int] | None = None) -> None:
        """Record that a trial used a checkpoint. Idempotent.

        `version` is the id of a model and the number of the version under which the checkpoint was used.
        """
        # Deletions of checkpoints and versions are exclusive too, so neither can disappear between check and insert.
        with self._database.transaction(exclusive=True):
            self._check("trial", "SELECT 1 FROM trials WHERE id = ?", trial_id)
            self._check("checkpoint", "SELECT 1 FROM checkpoints WHERE uuid = ?", text(checkpoint_id))
            named = None if version is None else self._version(*version)
            self._database.insert(_USES, [(trial_id, text(checkpoint_id), named, time.time())], _KNOWN)

    def users_of_checkpoint(self, checkpoint_id: str) -> list[int]:
        """Return the trials that used a checkpoint, in the order in which the uses were recorded."""
        self._check("checkpoint", "SELECT 1 FROM checkpoints WHERE uuid = ?", text(checkpoint_id))
        return self._users("checkpoint", text(checkpoint_id))

    def users_of_version(self, model_id: int, number: int) -> list[int]:
        """Return the trials that used a checkpoint as this version of a model."""
        return self._users("model_version", self._version(model_id, number))

    def _users(self, column: str, value: str | int) -> list[int]:
        """Return the trials whose use of a checkpoint has this value in a column, in the order they were recorded."""
        found = self._database.execute(
            # Uses recorded within one tick of the clock would otherwise be listed in any order.
            f"SELECT trial_id FROM checkpoint_uses WHERE {column} = ? ORDER BY since, trial_id",
            [value],
        )
        return [trial_id for (trial_id,) in found]

    def _version(self, model_id: int, number: int) -> int:
        """Return the row id of a model version. Raise `NotFoundException` if it does not exist."""
        found = self._database.execute(
            "SELECT id FROM model_versions WHERE model_id = ? AND number = ?", [model_id, number]
        )
        if not found:
            raise NotFoundException(f"Version {number} of model {model_id} not found.")
        return int(found[0][0])

    def _check(self, what: str, select: str, key: str | int) -> None:
        """Raise `NotFoundException` if the query returns no row."""
        if not self._database.execute(select, [key]):
            raise NotFoundException.of(what, key)
