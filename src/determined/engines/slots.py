"""Find the slots of this machine: its GPUs, or else shares of its CPUs. Does not need torch."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from determined.errors import EngineError
from determined.sentences import counted

_SECONDS_FOR_NVIDIA_SMI = 20  # it takes several seconds while the driver loads


@dataclass(frozen=True)
class Gpu:
    """A GPU; `name` is its name in CUDA_VISIBLE_DEVICES."""

    name: str
    uuid: str = ""


@dataclass(frozen=True)
class Slots:
    """The slots of a machine: slot n is the n-th of these GPUs, or a share of the CPUs with `threads` threads."""

    count: int
    gpus: tuple[Gpu, ...]
    threads: int
    cpus: int = 1  # the number of CPUs that this process may use

    def on(self, gpus: tuple[Gpu, ...]) -> Slots:
        """Return a copy with the same number of slots, on these GPUs."""
        return replace(self, gpus=gpus)

    def environment(self, ids: list[int], environment: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that restrict a job to these slots."""
        if not self.gpus:
            # A program that sets the variable itself has chosen its number of threads.
            return {} if "OMP_NUM_THREADS" in environment else {"OMP_NUM_THREADS": str(self.threads)}
        # CUDA then numbers these GPUs from 0.
        return {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus[number].name for number in ids)}


def find_slots(wanted: int | None, env: Mapping[str, str]) -> Slots:
    """Return the slots to use: all of this machine, or the number that the caller or DET_SLOTS gives."""
    if wanted is None:
        wanted = _from_environment(env)
    if wanted is not None and wanted < 1:
        raise EngineError(f"{wanted} slots were requested: expected a positive integer")
    gpus = find_gpus(env)
    # The CPUs that this process may use: in a container or under taskset fewer than the machine has.
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if gpus and wanted is not None and wanted > len(gpus):
        raise EngineError(
            f"{counted(wanted, 'slot was', 'slots were')} requested, but this machine has only "
            f"{counted(len(gpus), 'GPU')}; "
            "request fewer, or set CUDA_VISIBLE_DEVICES= to hide the GPUs and use the CPUs"
        )
    count = wanted or len(gpus) or cpus
    return Slots(count, gpus[:count], max(1, cpus // count), cpus)


def too_few_slots(wanted: int, present: int) -> str:
    """Return why a trial with more slots than this machine has can never run here."""
    return (
        f"a trial wants {counted(wanted, 'slot')}, this machine has {present}; "
        "ask for fewer, or state more CPU slots with --slots or DET_SLOTS"
    )


def find_gpus(env: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return the GPUs that a program started here would see."""
    # The driver's directory is the fallback where nvidia-smi is not installed.
    present = _from_nvidia_smi() if shutil.which("nvidia-smi") else _from_driver(Path("/proc/driver/nvidia/gpus"))
    visible = env.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return present
    uuids = {gpu.name: gpu.uuid for gpu in present}
    names = [name.strip() for name in visible.split(",")]
    chosen: list[Gpu] = []
    for name in names:
        if not name or name.startswith("-") or not present:
            break  # CUDA also ignores everything from the first invalid entry on
        chosen.append(Gpu(name, uuids.get(name, "" if name.isdecimal() else name)))
    return tuple(chosen)


def gpus_of_machine(names: Sequence[str]) -> tuple[list[Gpu], list[int]]:
    """Return the GPUs of this machine that have these names in CUDA_VISIBLE_DEVICES, with their indices.

    A name that is no GPU of this machine, such as a part of a GPU (MIG), has its place in the list as its index.
    """
    present = _all_gpus()
    indices = {name: index for index, gpu in enumerate(present) for name in (gpu.name, gpu.uuid) if name}
    found = [indices.get(name) for name in names]
    gpus = [
        # A name that is not a number is the UUID itself.
        Gpu(name, "" if name.isdecimal() else name) if index is None else Gpu(name, present[index].uuid)
        for name, index in zip(names, found, strict=True)
    ]
    return gpus, [place if index is None else index for place, index in enumerate(found)]


@functools.cache
def _all_gpus() -> tuple[Gpu, ...]:
    """Return all GPUs of this machine; asked once, because it takes up to several seconds."""
    return find_gpus({})


def _from_environment(env: Mapping[str, str]) -> int | None:
    """Return the number of slots in DET_SLOTS, or None if it is not set."""
    given = env.get("DET_SLOTS")
    if given is None:
        return None
    if not given.isdecimal() or int(given) < 1:
        raise EngineError(f"DET_SLOTS is {given!r}: expected a positive integer")
    return int(given)


def _from_nvidia_smi() -> tuple[Gpu, ...]:
    """Return the GPUs that nvidia-smi lists."""
    command = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_FOR_NVIDIA_SMI, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()  # nvidia-smi is installed without a working driver
    rows = [line.split(",") for line in done.stdout.splitlines() if line.count(",") == 1]
    return tuple(Gpu(index.strip(), uuid.strip()) for index, uuid in rows)


def _from_driver(directory: Path) -> tuple[Gpu, ...]:
    """Return the GPUs listed in the driver's directory below /proc."""
    try:
        entries = sorted(entry for entry in directory.iterdir())
        texts = [(entry / "information").read_text() for entry in entries]
    except OSError:
        return ()
    found = [re.search(r"GPU UUID:\s*(GPU-\S+)", text) for text in texts]
    return tuple(Gpu(str(index), match[1] if match else "") for index, match in enumerate(found))
