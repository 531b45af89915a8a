"""Check torch by importing it in a separate process, so that a broken installation does not end this command."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from determined.cli.doctor.result import Result, missing, ok, problem

_SECONDS = 120  # time-out of the import, which is slow on a network disk
_OLDEST = (2, 10)  # older restricted loaders could be bypassed by a malicious checkpoint
_PROGRAM = """
import json, torch
from determined.cli.doctor.torch_interfaces import failures
print(json.dumps({
    "version": torch.__version__,
    "cuda": torch.version.cuda,
    "hip": torch.version.hip,
    "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    "mps": torch.backends.mps.is_available(),
    "threads": torch.get_num_threads(),
    "sum": torch.ones(3).sum().item(),
    "distributed": torch.distributed.is_available() and torch.distributed.is_gloo_available(),
    "changed": failures(),
}))
"""


def start_torch() -> subprocess.Popen[str]:
    """Start the process that imports torch; it takes seconds, during which the other checks are made."""
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="backslashreplace",
    )


def check_torch(process: subprocess.Popen[str]) -> Iterator[Result]:
    """Wait for the process that `start_torch` started, and yield what it found."""
    try:
        output, errors = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        # Reaps the process and closes its pipes.
        process.communicate()
        yield _broken(f"importing torch takes more than {_SECONDS} seconds")
        return
    found = _read(output) if process.returncode == 0 else None
    if found is None:
        lines = [line for line in errors.splitlines() if line.strip()]
        message = lines[-1].strip()[:300] if lines else "no output"
        yield _broken(f"torch cannot be imported (exit code {process.returncode}): {message}")
        return
    yield _version(found)
    yield _devices(found)
    if not found["distributed"]:
        advice = "install a build of torch with gloo to train with several processes"
        yield problem("torch.distributed", "this build of torch has no gloo", advice)
    else:
        yield _interfaces(found)
    yield _compiler()


def _read(output: str) -> dict[str, Any] | None:
    """Return the JSON in the last line of the output, or None."""
    try:
        # Only the last line: importing torch may print warnings before it.
        found: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return found


def _broken(found: str) -> Result:
    return problem("torch", found, "pip install --force-reinstall torch", needed=True)


def _version(found: dict[str, Any]) -> Result:
    """Check that torch is new enough."""
    build = f"CUDA {found['cuda']}" if found["cuda"] else f"ROCm {found['hip']}" if found["hip"] else "CPU"
    about = f"{found['version']}, build for {build}, {found['threads']} threads"
    numbers = tuple(int(number) for number in re.findall(r"\d+", found["version"])[:2])
    if numbers < _OLDEST:
        advice = "pip install --upgrade torch to 2.10 or newer: with older ones a checkpoint from others could run code"
        return problem("torch", about, advice, needed=True)
    return ok("torch", f"{about}; checkpoints from others are safe to load")


def _interfaces(found: dict[str, Any]) -> Result:
    """Report whether the private interfaces of torch that are in use are as this library expects them."""
    if found["changed"]:
        advice = "use a torch that this library was tested with (2.10 to 2.13), or a newer determined-pytorch"
        return problem("torch internals", "; ".join(found["changed"]), advice, needed=True)
    return ok("torch internals", "all private interfaces in use are as expected")


def _devices(found: dict[str, Any]) -> Result:
    """Check which devices torch sees, and report a GPU that it does not see."""
    if found["devices"]:
        return ok("devices", ", ".join(found["devices"]))
    if found["mps"]:
        return ok("devices", "Apple GPU")
    if shutil.which("nvidia-smi"):
        advice = "install the build of torch for your CUDA: https://pytorch.org/get-started/locally"
        return problem("devices", "an NVIDIA driver is installed, but this torch finds no GPU", advice)
    return ok("devices", "CPU only")


def _compiler() -> Result:
    """Check for a C compiler, which torch.compile needs."""
    for name in ("gcc", "g++", "clang"):
        found = shutil.which(name)
        if found is not None:
            return ok("C compiler", f"{found} (for torch.compile)")
    return missing(
        "C compiler", "not found; torch.compile needs one", "apt-get install gcc g++, or the equivalent of your system"
    )
