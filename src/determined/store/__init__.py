"""What runs leave behind as rows: experiments, trials, attempts, metrics, checkpoints, logs, requests."""

from determined.store.base import Store
from determined.store.open import open_store

__all__ = ["Store", "open_store"]
