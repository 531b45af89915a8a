"""`OwnLoader`: the torch loader that fetches the batches of a `DataLoader`, in this process or in workers."""

from __future__ import annotations

import atexit
import os
import select
import signal
import threading
from array import array
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakSet

import torch
from torch.utils.data._utils import collate as torch_collate

from determined.pytorch.data.closed_form import draw_seed
from determined.pytorch.data.worker_seeds import show_own_data_set

default_collate: Callable[[Any], Any] = torch_collate.default_collate


class BeginWorker:
    """The function that a worker process calls first. A class, because workers that are not forked must unpickle it."""

    def __init__(self, init: Callable[[int], None] | None) -> None:
        self._init = init

    def __call__(self, worker_id: int) -> None:
        # A signal to the process group is handled by the main process alone: it needs its workers to finish the batch
        # in progress, and they exit with it.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _end_with_parent()
        show_own_data_set()
        if self._init is not None:
            self._init(worker_id)


def _end_with_parent() -> None:
    """Exit this worker process when its parent exits, even if the parent was killed.

    torch's workers check their parent only every five seconds, and only while they wait for work.
    """
    if not hasattr(os, "pidfd_open"):
        return
    try:
        parent = os.pidfd_open(os.getppid())
    except OSError:  # the parent has exited, or the kernel lacks pidfd: torch notices it later
        return
    # A thread, because the worker itself blocks in the data set; a daemon, so that it does not delay a normal exit.
    threading.Thread(target=_exit_after, args=(parent,), name="determined-parent", daemon=True).start()


def _exit_after(parent: int) -> None:
    """Wait until the parent, given by its pidfd, has exited, and exit at once, without running exit handlers.

    Exit handlers could wait for the queues that the parent no longer reads.
    """
    select.select([parent], [], [])
    os._exit(1)


class OwnLoader(torch.utils.data.DataLoader[Any]):
    """A torch loader that fetches batches in this process without torch's per-batch overhead if it has no workers.

    With workers, `behind` may be another loader that does the work, over a wrapped data set and sampler: this loader
    then shows the program its own data set and sampler.
    """

    behind: torch.utils.data.DataLoader[Any] | None = None

    def __iter__(self) -> Any:
        # torch pins memory in a thread of its own, and only its iterator starts one.
        if self.num_workers > 0 or self.pin_memory:
            iterator = super().__iter__() if self.behind is None else iter(self.behind)
            if self.num_workers:
                # Weakly held, so that an iterator that the program drops still ends its workers at once.
                _with_workers.add(iterator)
            return iterator
        batches = iter(self.batch_sampler)  # type: ignore[arg-type]
        if self.generator is None or self.generator.device.type == "cpu":
            # torch draws a base seed for each iterator; the same draw keeps the program's random numbers those of
            # torch.
            draw_seed(self.generator)
        return self._fetch_in_process(batches)

    def _fetch_in_process(self, batches: Iterator[list[int]]) -> Iterator[Any]:
        """Yield the collated records of each index list."""
        dataset, collate = self.dataset, _in_process_collate(self.collate_fn)
        # Read once instead of for each batch. torch calls `__getitems__` in the same way.
        fetch_many = getattr(dataset, "__getitems__", None)
        if fetch_many:
            for indices in batches:
                yield collate(fetch_many(indices))
        else:
            for indices in batches:
                yield collate([dataset[index] for index in indices])


_with_workers: WeakSet[Any] = WeakSet()


@atexit.register
def _end_workers() -> None:
    """Shut down all worker processes at exit.

    multiprocessing would send SIGTERM, which workers ignore, and wait for them for ever.
    """
    for iterator in list(_with_workers):
        iterator._shutdown_workers()


def _in_process_collate(collate: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Return the collate function for fetching in this process: a faster one in place of torch's default."""
    # A program may have registered its own rule for tensors, which must then be applied.
    own_rule_for_tensors = torch_collate.default_collate_fn_map.get(torch.Tensor)
    if collate is default_collate and own_rule_for_tensors is torch_collate.collate_tensor_fn:
        return _collate_records
    return collate


def _collate_records(records: list[Any]) -> Any:
    """Return the same as torch's default_collate, with one type check per field instead of one per record and field."""
    # Exact types: a named tuple keeps its class in torch's function.
    if type(records[0]) is not tuple:
        return default_collate(records)
    try:
        columns = list(zip(*records, strict=True))
    except ValueError:
        return default_collate(records)  # records of unequal length: raises torch's own error
    return [_stack(column) if type(column[0]) is torch.Tensor else default_collate(column) for column in columns]


def _stack(column: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Return the same as `torch.stack`; integer scalars (labels) go through an array of numbers, which is faster."""
    first = column[0]
    # Only for CPU scalars of one type: others would have to be copied or converted.
    if first.dtype is torch.int64 and first.is_cpu and not first.dim():
        try:
            return torch.frombuffer(array("q", [label.item() for label in column]), dtype=torch.int64)
        except (TypeError, RuntimeError):
            pass  # some values are not integers, or have several elements
    return torch.stack(column)
