"""What a job can be given: the GPUs of this machine, or else shares of its CPUs. Torch is not needed to count them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from determined.errors import EngineError

_SECONDS_FOR_THE_TOOL = 20


@dataclass(frozen=True)
class Gpu:
    """`name` is what CUDA_VISIBLE_DEVICES calls it."""

    name: str
    uuid: str = ""


@dataclass(frozen=True)
class Slots:
    """The slots of a machine; slot n is the GPU n of these, or a share of the CPUs of that many threads."""

    count: int
    gpus: tuple[Gpu, ...]
    threads: int
    cpus: int = 1  # that this process may use

    def on(self, gpus: tuple[Gpu, ...]) -> Slots:
        """Return the same number of slots on these GPUs."""
        return replace(self, gpus=gpus)

    def environment(self, ids: list[int], environment: Mapping[str, str]) -> dict[str, str]:
        """What to tell a job that was given these slots."""
        if not self.gpus:
            return {} if "OMP_NUM_THREADS" in environment else {"OMP_NUM_THREADS": str(self.threads)}
        return {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus[number].name for number in ids)}


def find_slots(wanted: int | None, env: Mapping[str, str]) -> Slots:
    """As many as there are, or as many as the caller or DET_SLOTS wants."""
    if wanted is None:
        wanted = _from_environment(env)
    if wanted is not None and wanted < 1:
        raise EngineError(f"{wanted} slots were asked for: expected a whole number from 1 on")
    gpus = find_gpus(env)
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if gpus and wanted is not None and wanted > len(gpus):
        raise EngineError(
            f"{wanted} slots were asked for, but there are only {len(gpus)} GPUs here; "
            "ask for fewer, or hide the GPUs by CUDA_VISIBLE_DEVICES= to use the CPUs"
        )
    count = wanted or len(gpus) or cpus
    return Slots(count, gpus[:count], max(1, cpus // count), cpus)


def find_gpus(env: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The GPUs that a program started here would see."""
    present = _by_tool() if shutil.which("nvidia-smi") else _by_driver(Path("/proc/driver/nvidia/gpus"))
    visible = env.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return present
    uuids = {gpu.name: gpu.uuid for gpu in present}
    names = [name.strip() for name in visible.split(",")]
    chosen: list[Gpu] = []
    for name in names:
        if not name or name.startswith("-") or not present:
            break  # CUDA stops reading here as well
        chosen.append(Gpu(name, uuids.get(name, "" if name.isdecimal() else name)))
    return tuple(chosen)


def _from_environment(env: Mapping[str, str]) -> int | None:
    given = env.get("DET_SLOTS")
    if given is None:
        return None
    if not given.isdecimal() or int(given) < 1:
        raise EngineError(f"DET_SLOTS is {given!r}: expected a whole number from 1 on")
    return int(given)


def _by_tool() -> tuple[Gpu, ...]:
    command = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_FOR_THE_TOOL, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()  # the tool is there, a working driver is not
    rows = [line.split(",") for line in done.stdout.splitlines() if line.count(",") == 1]
    return tuple(Gpu(index.strip(), uuid.strip()) for index, uuid in rows)


def _by_driver(directory: Path) -> tuple[Gpu, ...]:
    try:
        entries = sorted(entry for entry in directory.iterdir())
        texts = [(entry / "information").read_text() for entry in entries]
    except OSError:
        return ()
    found = [re.search(r"GPU UUID:\s*(GPU-\S+)", text) for text in texts]
    return tuple(Gpu(str(index), match[1] if match else "") for index, match in enumerate(found))
