"""Slots of this machine that the user's experiments hold, whatever store they are recorded in.

Each slot is a file in a directory of the user and the machine. Who has locked it holds the slot: the system releases
the lock when the process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from determined import paths
from determined.engines.slots import Slots, find_gpus

_TURN = "turn"
_MOST_BYTES = 1 << 12


class Holder(NamedTuple):
    """The experiment that holds a slot; `store` is shown as its place without a password."""

    experiment_id: int | None  # None while it is being created
    store: str
    pid: int

    def __str__(self) -> str:
        name = "a new experiment" if self.experiment_id is None else f"experiment {self.experiment_id}"
        return f"{name} (process {self.pid}, store {self.store})"


class SlotLocks:
    """The slots that this process holds for its experiments. Used by one thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: dict[str, tuple[int, Holder]] = {}
        self._turn: int | None = None

    @property
    def held(self) -> list[str]:
        """The slots that are ours, in the order in which they were taken."""
        return list(self._held)

    def take(self, name: str, holder: Holder) -> bool:
        """Lock a slot for an experiment, unless another process has it; return whether it is ours now."""
        file, before = self._held.get(name, (None, None))
        if file is None:
            file = self._locked(name)
            if file is None:
                return False
        if holder != before:
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps(holder).encode(), 0)
            self._held[name] = file, holder
        return True

    def release(self, names: Iterable[str]) -> None:
        for name in names:
            file, _ = self._held.pop(name)
            os.close(file)

    def holder(self, name: str) -> Holder | None:
        """Return which experiment has locked a slot last; None if that is not known."""
        try:
            with open(self._directory / name, "rb") as file:
                return Holder(*json.loads(file.read(_MOST_BYTES)))
        except (OSError, ValueError, TypeError):  # it is being written, or was damaged
            return None

    def begin_turn(self) -> bool:
        """Become the only process that takes free slots, unless another one is; return whether we are.

        A process that waits for slots keeps its turn until it has all of them. So two processes never hold a part of
        what both need, and a queue that is never empty does not keep others waiting for ever.
        """
        if self._turn is None:
            self._turn = self._locked(_TURN)
        return self._turn is not None

    def end_turn(self) -> None:
        if self._turn is not None:
            os.close(self._turn)
            self._turn = None

    def close(self) -> None:
        self.end_turn()
        self.release(list(self._held))

    def _locked(self, name: str) -> int | None:
        file = os.open(self._directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        except OSError:
            os.close(file)
            raise
        return file


def slot_locks() -> SlotLocks:
    """Return the locks of this user on this machine; several machines may share a home directory."""
    machine = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:16]
    directory = paths.state_dir() / "slots" / machine
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return SlotLocks(directory)


def slot_names(slots: Slots) -> list[str | None]:
    """Return the name of each slot on this machine; a CPU slot beyond the number of CPUs has none."""
    if slots.gpus:
        return [_gpu_name(gpu.name, gpu.uuid) for gpu in slots.gpus]
    return [f"cpu-{number}" if number < slots.cpus else None for number in range(slots.count)]


class Reservation:
    """The slots that one experiment needs; they are gathered as other processes release them."""

    def __init__(self, slots: Slots, env: Mapping[str, str]) -> None:
        self._locks, self._slots = slot_locks(), slots
        if slots.gpus:
            self._gpus = {_gpu_name(gpu.name, gpu.uuid): gpu for gpu in find_gpus(env)}
            self._candidates = list(self._gpus)
        else:  # one CPU is as good as another
            self._gpus = {}
            self._candidates = [f"cpu-{number}" for number in range(slots.cpus)]

    def gather(self, slots: int, holder: Holder) -> Slots | None:
        """Take what is free; return the slots once that many are ours, and None as long as some are missing.

        Those that are ours already keep their numbers: jobs may run on them.
        """
        count = self._needed(slots)
        if not self._locks.begin_turn():
            return None
        for name in self._candidates:
            if name in self._locks.held or len(self._locks.held) < count:
                self._locks.take(name, holder)
        if len(self._locks.held) < count:
            return None
        self._locks.end_turn()
        return self._slots.on(tuple(self._gpus[name] for name in self._locks.held if name in self._gpus))

    def missing(self, slots: int) -> str:
        """Describe what is waited for, and which experiments have it."""
        held, needed = self._locks.held, self._needed(slots)
        others = dict.fromkeys(
            str(holder) for name in self._candidates if name not in held if (holder := self._locks.holder(name))
        )
        by = f", held by {_list(list(others))}" if others else ""
        return f"{needed - len(held)} of {needed} slot{'s' if needed > 1 else ''}{by}"

    def close(self) -> None:
        self._locks.close()

    def _needed(self, slots: int) -> int:
        """Return how many of the candidates these slots take: several slots may share a CPU, but not a GPU."""
        return min(slots, self._slots.count, len(self._candidates))


def _gpu_name(name: str, uuid: str) -> str:
    # A UUID comes from the driver or the environment: as part of a path it must not lead elsewhere.
    return "gpu-" + hashlib.sha256((uuid or name).encode()).hexdigest()[:16]


def _list(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
