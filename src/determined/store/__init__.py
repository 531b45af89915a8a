"""The database of runs: experiments, trials, attempts, metrics, checkpoints, logs and requests, as rows."""

from typing import TYPE_CHECKING, Any

from determined.store.open import open_store

if TYPE_CHECKING:
    from determined.store.store import Store

__all__ = ["Store", "open_store"]


def __getattr__(name: str) -> Any:
    """Import `Store` when it is first used: a training script that imports the library should not pay for it."""
    if name == "Store":
        from determined.store.store import Store

        return Store
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
