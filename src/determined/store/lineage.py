"""Which runs made use of which checkpoints, as an evaluation does of the model that it looks at."""

from __future__ import annotations

from typing import Protocol


class Lineage(Protocol):
    """An id that is not there is a `StoreError` that names it."""

    def record_use(self, trial_id: int, checkpoint: str, version: tuple[int, int] | None = None) -> None:
        """Once more changes nothing. A version of a model is its id and the version's number."""
        ...

    def users_of_checkpoint(self, checkpoint: str) -> list[int]:
        """The trials, in the order in which they said so."""
        ...

    def users_of_version(self, model_id: int, number: int) -> list[int]:
        """Those that named it as that version."""
        ...
