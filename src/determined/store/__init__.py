"""The database of runs: experiments, trials, attempts, metrics, checkpoints, logs and requests, as rows."""

from determined.store.base import Store
from determined.store.open import open_store

__all__ = ["Store", "open_store"]
