"""Check the machine: slots, shared memory, open files, the loopback device, the host name and the clock."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from determined.cli.display.table import size
from determined.cli.doctor.result import Result, ok, problem
from determined.errors import EngineError

_SHARED_MEMORY = Path("/dev/shm")
_LITTLE_SHARED_MEMORY = 256_000_000  # bytes; the 64 MB of a Docker container are too little for most batches
_FEW_FILES = 1024  # data loaders with many workers open a few files for each batch
_YEAR_OF_THIS_VERSION = 2026  # a clock that shows an earlier year is wrong


def check_machine() -> Iterator[Result]:
    """Check the resources of this machine that training needs."""
    yield _slots()
    if _SHARED_MEMORY.is_dir():
        yield _shared_memory()
    if os.name == "posix":
        yield _open_files()
    yield _loopback()
    yield _host_name()
    yield _clock()


def _slots() -> Result:
    """Check that slots can be found, and report their number and kind."""
    from determined.engines.slots import find_slots

    try:
        slots = find_slots(None, os.environ)
    except EngineError as error:
        return problem("slots", str(error), "correct or remove DET_SLOTS", needed=True)
    if slots.gpus:
        return ok("slots", f"{slots.count} (GPUs)")
    return ok("slots", f"{slots.count} (CPUs; threads of each: {slots.threads})")


def _shared_memory() -> Result:
    """Check the size of /dev/shm, through which workers of data loaders send batches."""
    usage = shutil.disk_usage(_SHARED_MEMORY)
    found = f"{size(usage.free)} free of {size(usage.total)}"
    if not os.access(_SHARED_MEMORY, os.W_OK):
        return problem("shared memory", f"{_SHARED_MEMORY} cannot be written", "chmod 1777 /dev/shm")
    if usage.total < _LITTLE_SHARED_MEMORY:
        advice = "workers of data loaders need more: docker run --shm-size=8g, or mount -o remount,size=8g /dev/shm"
        return problem("shared memory", found, advice)
    return ok("shared memory", found)


def _open_files() -> Result:
    """Check the limit of open files."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = "without limit" if soft == resource.RLIM_INFINITY else f"{soft:,} at once"
    if soft != resource.RLIM_INFINITY and soft < _FEW_FILES:
        # Not above the hard limit, which only root can raise.
        more = _FEW_FILES if hard == resource.RLIM_INFINITY else min(hard, 65536)
        return problem("open files", found, f"ulimit -n {more}")
    return ok("open files", found)


def _loopback() -> Result:
    """Check the loopback device, through which ranks of one machine and TensorBoard communicate."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            # Listening alone is not enough: a firewall may block connections to it.
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                return ok("loopback", "127.0.0.1 can be listened on and reached")
    except OSError as error:
        return problem("loopback", f"127.0.0.1 cannot be used: {error}", "ip link set lo up", needed=True)


def _host_name() -> Result:
    """Check that the host name can be resolved, which torch.distributed may need."""
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        advice = f'add it to /etc/hosts: echo "127.0.1.1 {name}" >> /etc/hosts'
        return problem("host name", f"{name} has no address; torch.distributed may need one", advice)
    return ok("host name", f"{name} ({address})")


def _clock() -> Result:
    """Check that the clock does not show an earlier year than this version."""
    now = time.localtime()
    found = time.strftime("%Y-%m-%d %H:%M:%S%z, zone %Z", now)
    if now.tm_year < _YEAR_OF_THIS_VERSION:
        return problem("clock", found, "set the clock, otherwise the recorded times are wrong")
    return ok("clock", found)
