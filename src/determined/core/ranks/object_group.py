"""Exchange Python objects over a gloo process group that is created on first use, apart from the default group."""

from __future__ import annotations

import atexit
import os
import pickle
import struct
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from determined.core.ranks import rendezvous, stacks
from determined.errors import DistributedError

if TYPE_CHECKING:
    import torch
    from torch._C._distributed_c10d import Store

Operation = Literal["allgather", "gather", "broadcast"]

_OPERATIONS: tuple[Operation, ...] = ("allgather", "gather", "broadcast")
# Fixed size and byte order: the ranks may run on machines of different architectures.
_HEADER = struct.Struct("<BBxxI")  # operation, whether the payload is an error, length of the payload
_LARGEST_PAYLOAD = 2**32 - 1  # the header has four bytes for the length
# Frames have the same size on all ranks, so that small objects take one collective instead of two (lengths, then
# contents).
_FIRST_CAPACITY = 4096
# A single large object must not slow down all later small ones: larger payloads take a second collective.
_LARGEST_CAPACITY = 64 * 1024
# Survivors notice a failure nearly at the same time; together with the exit of the process this stays below 30 s.
_WAIT_FOR_SURVIVORS = timedelta(seconds=5)

# Numbers groups of the same name, so that all ranks use the same store prefix for the same group. Counted per rank,
# because the ranks of a test may be threads of one process.
_groups_made: Counter[tuple[str, int]] = Counter()

# A group that is destroyed during interpreter shutdown may abort the process, because its threads are still running.
_open_groups: weakref.WeakSet[ObjectGroup] = weakref.WeakSet()


@atexit.register
def _close_open_groups() -> None:
    """Close all groups of this process before the interpreter shuts down."""
    for group in list(_open_groups):
        if group._process == os.getpid():  # the threads of a group do not exist in a forked child
            group.close()


class ObjectGroup:
    """The ranks of a job, or of one node, that exchange objects in step."""

    def __init__(
        self,
        *,
        name: str,
        rank: int,
        members: Sequence[int],
        on_one_node: bool,
        find_store: Callable[[timedelta], Store],
    ) -> None:
        self._name = name
        self._rank = rank  # within the group
        self._members = list(members)  # ranks in the job
        self._on_one_node = on_one_node
        self._find_store = find_store
        self._capacity = _FIRST_CAPACITY
        self._sequence = 0
        self._group: Any = None  # torch's type annotations of its backends are incomplete
        self._store: Store | None = None
        self._timeout = timedelta()
        self._process = 0
        self._failure: str | None = None
        self._closed = False

    def allgather(self, obj: Any) -> list[Any]:
        """Return the objects of all ranks, in rank order, on every rank."""
        return [pickle.loads(payload) for payload in self._exchange("allgather", obj)]

    def gather(self, obj: Any) -> list[Any] | None:
        """Return the objects of all ranks on the first rank, None on the others."""
        payloads = self._exchange("gather", obj)
        return [pickle.loads(payload) for payload in payloads] if self._rank == 0 else None

    def broadcast(self, obj: Any) -> Any:
        """Return the first rank's object on every rank."""
        return pickle.loads(self._exchange("broadcast", obj if self._rank == 0 else None)[0])

    def shared_store(self) -> Store:
        """Return the group's store, opening it if necessary."""
        self._open_store()
        assert self._store is not None
        return self._store

    def close(self) -> None:
        """Release the group and the store; later calls of collectives raise."""
        self._closed = True
        # Dropping the last reference destroys the group.
        self._group = self._store = None

    def _exchange(self, operation: Operation, obj: Any) -> list[bytes]:
        """Return the pickled objects of all ranks.

        Raise on every rank if one cannot be pickled or the ranks are out of step.
        """
        if self._closed:
            raise RuntimeError(f"{operation} was called after this distributed context had been closed")
        # After a failure the ranks may be at different collectives, and would mix up their data.
        if self._failure is not None:
            raise DistributedError(f"{operation} cannot work, an earlier collective failed: {self._failure}")
        own_error: Exception | None = None
        try:
            payload = pickle.dumps(obj)
            if len(payload) > _LARGEST_PAYLOAD:
                raise ValueError(f"{operation} takes objects of up to 4 GiB when pickled, got {len(payload)} bytes")
        except Exception as error:  # noqa: BLE001  (raised below, once the other ranks know)
            own_error = error
            # Short enough for a frame, so that an error never needs a second collective.
            payload = f"{type(error).__name__}: {error}".encode()[:1000]
        self._open_store()
        self._sequence += 1
        try:
            headers, payloads = self._transfer(operation, payload, own_error is not None)
        except RuntimeError as error:
            # torch reports lost connections and time-outs of gloo as RuntimeError.
            self._failure = self.describe_failure(f"{operation} number {self._sequence}", error)
            self._group = None
            raise DistributedError(self._failure) from error
        if own_error is not None:
            raise own_error
        self._check(operation, headers, payloads)
        return payloads

    def _transfer(
        self, operation: Operation, payload: bytes, is_error: bool
    ) -> tuple[list[tuple[int, int, int]], list[bytes]]:
        """Exchange one frame per rank (header and payload); payloads that do not fit take a second collective."""
        import torch

        size = len(self._members)
        header = _HEADER.pack(_OPERATIONS.index(operation), is_error, len(payload))
        room = self._capacity - _HEADER.size
        frame = header + payload[:room]
        # A bytearray, because `frombuffer` warns about memory that cannot be written.
        sent = torch.frombuffer(bytearray(frame.ljust(self._capacity, b"\0")), dtype=torch.uint8)
        received = [torch.empty(self._capacity, dtype=torch.uint8) for _ in range(size)]
        self._all_gather(received, sent)
        frames = [bytes(tensor.numpy()) for tensor in received]
        headers = [_HEADER.unpack_from(frame) for frame in frames]
        lengths = [length for _, _, length in headers]
        payloads = [frame[_HEADER.size : _HEADER.size + length] for frame, length in zip(frames, lengths, strict=True)]
        longest = max(lengths)
        # All ranks have seen all headers, so they agree on whether a second collective follows.
        # Different operations are reported by `_check`; a second collective would hang.
        if longest > room and len({kind for kind, _, _ in headers}) == 1:
            if operation == "broadcast":
                payloads[0] = self._broadcast_bytes(payload, lengths[0])
            else:
                payloads = self._gather_bytes(payload, lengths)
            # All ranks compute the same capacity, because they have the same headers.
            self._capacity = max(self._capacity, min(_LARGEST_CAPACITY, _power_of_two(longest + _HEADER.size)))
        return headers, payloads

    def _gather_bytes(self, payload: bytes, lengths: list[int]) -> list[bytes]:
        """Exchange payloads that do not fit into a frame, padded to the longest one."""
        import torch

        longest = max(lengths)
        sent = torch.frombuffer(bytearray(payload.ljust(longest, b"\0")), dtype=torch.uint8)
        received = [torch.empty(longest, dtype=torch.uint8) for _ in lengths]
        self._all_gather(received, sent)
        return [bytes(tensor[:length].numpy()) for tensor, length in zip(received, lengths, strict=True)]

    def _broadcast_bytes(self, payload: bytes, length: int) -> bytes:
        """Return the payload of the first rank, which does not fit into a frame."""
        import torch

        buffer = bytearray(payload) if self._rank == 0 else bytearray(length)
        tensor = torch.frombuffer(buffer, dtype=torch.uint8)
        # The methods of the backend are called directly, because `dist.broadcast` needs a group registered with torch.
        self._connected().broadcast([tensor]).wait()
        return bytes(tensor.numpy())

    def _all_gather(self, received: list[torch.Tensor], sent: torch.Tensor) -> None:
        """Run one collective of torch and wait for it."""
        self._connected().allgather([received], [sent]).wait()

    def _check(self, operation: Operation, headers: list[tuple[int, int, int]], payloads: list[bytes]) -> None:
        """Raise DistributedError if the ranks called different operations, or one of them could not send its object."""
        called = [_OPERATIONS[kind] for kind, _, _ in headers]
        if len(set(called)) > 1:
            self._failure = (
                "the ranks are out of step: "
                + ", ".join(f"rank {rank} called {name}" for rank, name in zip(self._members, called, strict=True))
                + ". Every rank must make the same calls in the same order"
            )
            raise DistributedError(self._failure)
        for rank, (_, is_error, _), payload in zip(self._members, headers, payloads, strict=True):
            if is_error:
                raise DistributedError(
                    f"rank {rank} could not send what it gave to {operation}: " + payload.decode(errors="replace")
                )

    def _open_store(self) -> None:
        """Find the torch store of the job and add a separate prefix for this group."""
        if self._store is None:
            # Private: `dist.new_group` needs an initialized default group, which the program may create later.
            from torch._C import _distributed_c10d as c10d

            self._timeout = rendezvous.collective_timeout()
            store = self._find_store(self._timeout)
            key = (self._name, self._members[self._rank])
            _groups_made[key] += 1
            self._store = c10d.PrefixStore(f"determined/{self._name}/{_groups_made[key]}", store)

    def _connected(self) -> Any:
        """Return the gloo process group; create it on first use."""
        if self._group is None:
            from torch._C import _distributed_c10d as c10d

            size = len(self._members)
            gloo: Any = c10d.ProcessGroupGloo
            if self._on_one_node:
                options = gloo._Options()
                options._timeout = self._timeout
                # Only the loopback interface: the ranks exchange pickled objects, and no socket may be reachable from
                # the network.
                options._devices = [gloo.create_device(hostname=rendezvous.LOOPBACK)]
                options._threads = 2  # as many as the other constructor creates for one device
                self._group = gloo(self._store, self._rank, size, options)
            else:  # only this constructor honours GLOO_SOCKET_IFNAME
                self._group = gloo(self._store, self._rank, size, self._timeout)
            self._process = os.getpid()
            _open_groups.add(self)
            assert self._store is not None
            # Published now, so that the address is known when this rank does not answer any more.
            self._store.set(f"process/{self._members[self._rank]}", stacks.address())
        return self._group

    def describe_failure(self, what: str, error: RuntimeError) -> str:
        """Return a description of a failed collective with the ranks that are missing.

        Every surviving rank leaves a note in the store; ranks without a note are missing.
        """
        me = self._members[self._rank]
        # The first line names the error; the rest is a C++ stack.
        words = str(error).strip().partition("\n")[0]
        missing = self._missing_ranks()
        if missing is None:
            lost = "the store does not answer either: the chief (rank 0) or its launcher has exited"
        elif missing:
            waited = _WAIT_FOR_SURVIVORS.seconds
            lost = f"{_ranks(list(missing))} did not answer within {waited} s: " + "; ".join(missing.values())
        else:
            lost = "all ranks are alive and noticed it: look for the first error among them"
        return f"{what} failed on rank {me}; {lost}. The transport said: {words}"

    def _missing_ranks(self) -> dict[int, str] | None:
        """Return the ranks that left no note in the store in time, with details on each; None without a store."""
        store = self._store
        if store is None:
            return None
        answer: list[dict[int, str]] = []

        def ask() -> None:
            """Leave this rank's note, wait for those of the others, and describe the ranks without one."""
            keys = {rank: f"failed/{self._sequence}/{rank}" for rank in self._members}
            try:
                # The number of the collective, so that notes of an earlier failure do not count.
                store.set(keys[self._members[self._rank]], "1")
                try:
                    store.wait(list(keys.values()), _WAIT_FOR_SURVIVORS)
                    answer.append({})
                except RuntimeError:
                    silent = [rank for rank, key in keys.items() if not store.check([key])]
                    answer.append({rank: _process_description(rank, store) for rank in silent})
            except RuntimeError:
                return  # no answer: the caller reports that

        # In a thread, because the store's client has no timeout if the store's host is suspended.
        asking = threading.Thread(target=ask, name="determined-missing-ranks", daemon=True)
        asking.start()
        # Twice the time, because after the wait the missing ranks on this machine are asked for their stacks.
        asking.join(2 * _WAIT_FOR_SURVIVORS.total_seconds())
        return answer[0] if answer else None


def _process_description(rank: int, store: Store) -> str:
    """Describe the process of a rank for an error message: host, pid and, if it responds, its stack."""
    key = f"process/{rank}"
    return stacks.describe(store.get(key).decode()) if store.check([key]) else "its process never started"


def _power_of_two(at_least: int) -> int:
    """Return the smallest power of two that is not below a number."""
    return 1 << (at_least - 1).bit_length()


def _ranks(ranks: list[int]) -> str:
    """Return rank numbers as text."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else "ranks " + ", ".join(map(str, ranks))
