"""Hold the lease of an experiment, so that only one process at a time runs it, and send heartbeats."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from determined.errors import LeaseLost, StoreError, StoreUnavailable
from determined.store.experiment_records import Lease
from determined.store.process import this_process
from determined.store.store import Store

logger = logging.getLogger("determined.experiment")

# Another process takes the lease over after 20 s without a heartbeat, so several may fail while the store is busy.
_SECONDS_BETWEEN_BEATS = 1.0


class KeptLease:
    """A lease that a separate thread keeps alive, so that a busy runner does not lose it."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.lost: LeaseLost | StoreError | None = None

    def check(self) -> None:
        """Raise the error that ended the lease, if any."""
        if self.lost is not None:
            raise self.lost


@contextmanager
def held(open_store: Callable[[], Store], experiment_id: int, *, watch_seconds: float = 20.0) -> Iterator[KeptLease]:
    """Acquire the lease of an experiment for the block; raise ExperimentHeld if another process has it."""
    store = open_store()
    try:
        holding = KeptLease(store.experiments.acquire(experiment_id, this_process(), watch_seconds=watch_seconds))
        done = threading.Event()
        # Only the thread uses the connection until it has ended, because SQLite connections must not be shared. The
        # writer's connection is not used: a long query there would delay the heartbeats.
        beating = threading.Thread(target=_beat, args=(store, holding, done), name="determined-lease", daemon=True)
        beating.start()
        try:
            yield holding
        finally:
            done.set()
            # The thread has to be done with the connection before this one uses it.
            beating.join()
            store.experiments.release(holding.lease)
    finally:
        store.close()


def _beat(store: Store, holding: KeptLease, done: threading.Event) -> None:
    """Send a heartbeat every second until `done` is set or the lease is lost. Runs in the thread."""
    while not done.wait(_SECONDS_BETWEEN_BEATS):
        try:
            store.experiments.heartbeat(holding.lease)
        # A store that restarts is no reason to give up: the lease is lost only if another process takes it.
        except StoreUnavailable as error:
            logger.debug("%s; the next heartbeat tries again", error)
        except (LeaseLost, StoreError) as error:
            holding.lost = error
            return
