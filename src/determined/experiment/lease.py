"""Hold an experiment: one process at a time may run it, and shows that it is alive."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from determined.errors import LeaseLost, StoreError, StoreUnavailable
from determined.store.base import Store
from determined.store.experiment_records import Lease
from determined.store.process import this_process

logger = logging.getLogger("determined.experiment")

_SECONDS_BETWEEN_BEATS = 1.0


class Held:
    """A lease that is kept by a thread of its own, whatever the runner is busy with."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.lost: LeaseLost | StoreError | None = None

    def check(self) -> None:
        if self.lost is not None:
            raise self.lost


@contextmanager
def held(open_store: Callable[[], Store], experiment_id: int, *, watch_seconds: float = 20.0) -> Iterator[Held]:
    """Become the runner of an experiment, or raise ExperimentHeld; at the end it is free again."""
    store = open_store()
    try:
        holding = Held(store.experiments.acquire(experiment_id, this_process(), watch_seconds=watch_seconds))
        done = threading.Event()
        # The connection is handed over to the thread, and comes back when it has ended.
        beating = threading.Thread(target=_beat, args=(store, holding, done), name="determined-lease", daemon=True)
        beating.start()
        try:
            yield holding
        finally:
            done.set()
            beating.join()
            store.experiments.release(holding.lease)
    finally:
        store.close()


def _beat(store: Store, holding: Held, done: threading.Event) -> None:
    while not done.wait(_SECONDS_BETWEEN_BEATS):
        try:
            store.experiments.heartbeat(holding.lease)
        except StoreUnavailable as error:
            logger.debug("%s; the next heartbeat tries again", error)
        except (LeaseLost, StoreError) as error:
            holding.lost = error
            return
