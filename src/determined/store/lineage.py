"""The `Lineage` interface: records which runs used which checkpoints, for example to evaluate a model."""

from __future__ import annotations

from typing import Protocol


class Lineage(Protocol):
    """The uses of checkpoints by runs. An unknown id raises a `StoreError` that names it."""

    def record_use(self, trial_id: int, checkpoint: str, version: tuple[int, int] | None = None) -> None:
        """Record that a trial used a checkpoint. Idempotent.

        `version` is the id of a model and the number of the version under which the checkpoint was used.
        """
        ...

    def users_of_checkpoint(self, checkpoint: str) -> list[int]:
        """Return the trials that used a checkpoint, in the order in which the uses were recorded."""
        ...

    def users_of_version(self, model_id: int, number: int) -> list[int]:
        """Return the trials that used a checkpoint as this version of a model."""
        ...
