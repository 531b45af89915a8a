"""Locks on the slots of this machine, shared by all experiments of the user, regardless of their store.

Each slot is a file in a directory per user and machine. The process that has locked the file holds the slot. The system
releases the lock when that process ends, so no crash can leave a slot locked.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from determined import paths
from determined.engines.slots import Slots, find_gpus
from determined.file_locks import try_lock

# The file whose lock decides who may lock free slots.
_TURN = "turn"
# A holder is a short JSON list; a damaged file must not be read completely.
_MOST_BYTES = 1 << 12


class SlotHolder(NamedTuple):
    """The experiment that holds a slot. `store` is its location without a password."""

    experiment_id: int | None  # None while the experiment is being created
    store: str
    pid: int

    def __str__(self) -> str:
        name = "a new experiment" if self.experiment_id is None else f"experiment {self.experiment_id}"
        return f"{name} (process {self.pid}, store {self.store})"


class SlotLocks:
    """The slot locks held by this process. Used by one thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: dict[str, tuple[int, SlotHolder]] = {}
        self._turn: int | None = None

    @property
    def held(self) -> list[str]:
        """The names of the locked slots, in the order in which they were locked."""
        return list(self._held)

    def take(self, name: str, holder: SlotHolder) -> bool:
        """Lock a slot for an experiment unless another process holds it; return whether this process holds it now."""
        file, before = self._held.get(name, (None, None))
        if file is None:
            file = try_lock(self._directory / name)
            if file is None:
                return False
        # Written in place: replacing the file would leave this process with a lock on the old one.
        if holder != before:
            # The content only informs other processes; the lock decides.
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps(holder).encode(), 0)
            self._held[name] = file, holder
        return True

    def release(self, names: Iterable[str]) -> None:
        """Unlock these slots."""
        for name in names:
            file, _ = self._held.pop(name)
            # Closing the descriptor releases the lock.
            os.close(file)

    def holder(self, name: str) -> SlotHolder | None:
        """Return the experiment that last locked a slot, or None if unknown."""
        try:
            with open(self._directory / name, "rb") as file:
                return SlotHolder(*json.loads(file.read(_MOST_BYTES)))
        except (OSError, ValueError, TypeError):  # the file is being written, or was damaged
            return None

    def begin_turn(self) -> bool:
        """Try to become the only process that may lock free slots; return whether this process is.

        A process that waits for slots keeps its turn until it has all of them. Otherwise two processes could each hold
        a part of what both need and wait forever, and a queue that is never empty could starve the others.
        """
        if self._turn is None:
            self._turn = try_lock(self._directory / _TURN)
        return self._turn is not None

    def end_turn(self) -> None:
        """Let another process lock free slots."""
        if self._turn is not None:
            os.close(self._turn)
            self._turn = None

    def close(self) -> None:
        self.end_turn()
        self.release(list(self._held))


def slot_locks() -> SlotLocks:
    """Return the slot locks of this user on this machine. The directory is per host: a home directory may be shared."""
    # Hashed, because a host name may contain characters that a file name may not.
    machine = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:16]
    directory = paths.state_dir() / "slots" / machine
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return SlotLocks(directory)


def slot_names(slots: Slots) -> list[str | None]:
    """Return the lock name of each slot. A CPU slot beyond the number of CPUs has none."""
    if slots.gpus:
        return [_gpu_name(gpu.name, gpu.uuid) for gpu in slots.gpus]
    return [f"cpu-{number}" if number < slots.cpus else None for number in range(slots.count)]


class Reservation:
    """The slots that one experiment needs, locked one by one as other processes release them."""

    def __init__(self, slots: Slots, env: Mapping[str, str]) -> None:
        self._locks, self._slots = slot_locks(), slots
        if slots.gpus:
            self._gpus = {_gpu_name(gpu.name, gpu.uuid): gpu for gpu in find_gpus(env)}
            self._candidates = list(self._gpus)
        else:  # CPUs are interchangeable
            self._gpus = {}
            # More slots than CPUs may be configured; these share the locks.
            self._candidates = [f"cpu-{number}" for number in range(slots.cpus)]

    def gather(self, slots: int, holder: SlotHolder) -> Slots | None:
        """Lock free slots; return the slots once the requested number is locked, or None while some are missing.

        Slots that are already locked keep their numbers, because jobs may be running on them.
        """
        count = self._needed(slots)
        # Another process waits for slots: taking free ones now would let it wait longer.
        if not self._locks.begin_turn():
            return None
        for name in self._candidates:
            # Slots that are held are taken again, because the holder's description may have changed.
            if name in self._locks.held or len(self._locks.held) < count:
                self._locks.take(name, holder)
        if len(self._locks.held) < count:
            return None
        self._locks.end_turn()
        return self._slots.on(tuple(self._gpus[name] for name in self._locks.held if name in self._gpus))

    def missing(self, slots: int) -> str:
        """Return a description of the missing slots and of the experiments that hold them."""
        held, needed = self._locks.held, self._needed(slots)
        others = dict.fromkeys(
            str(holder) for name in self._candidates if name not in held if (holder := self._locks.holder(name))
        )
        by = f", held by {_list(list(others))}" if others else ""
        return f"{needed - len(held)} of {needed} slot{'s' if needed > 1 else ''}{by}"

    def close(self) -> None:
        self._locks.close()

    def _needed(self, slots: int) -> int:
        """Return how many locks these slots need: several slots may share a CPU, but not a GPU."""
        return min(slots, self._slots.count, len(self._candidates))


def _gpu_name(name: str, uuid: str) -> str:
    """Return the lock name of a GPU."""
    # Hashed, because the UUID comes from the driver or the environment and must not become a path as it is.
    return "gpu-" + hashlib.sha256((uuid or name).encode()).hexdigest()[:16]


def _list(names: Sequence[str]) -> str:
    """Return names as a list in a sentence."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
