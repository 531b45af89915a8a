"""Machines with separate networks, host names and processes, as namespaces of this machine.

with two_hosts() as (first, second):
    subprocess.run(first.command("hostname"))

They are joined by a cable and see nothing of the network of this machine. Files are those of this machine, except
/etc/hosts, in which the host name belongs to a loopback address, as Debian's installer writes it.

A host lives as long as the program that holds its namespaces, which ends when its input is closed. The kernel then
kills all processes of the host and deletes its network: also if the tests were killed, nothing is left.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.helpers.system import impossible, missing

_PROGRAMS = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux", "hostname": "hostname"}
# The first process of the host reaps orphans, as long as it ignores SIGCHLD.
_HOLD = """
set -e
mount --bind "$1" /etc/hosts
hostname "$0"
ip link set lo up
trap "" CHLD
echo ready
exec cat
"""


@dataclass(frozen=True)
class Host:
    """One of two simulated machines."""

    name: str
    address: str
    interface: str
    pid: int  # of the process that holds its namespaces

    def command(self, *arguments: str) -> list[str]:
        """Return the command with which a program runs on this host, in its root directory."""
        return ["nsenter", f"--target={self.pid}", "--mount", "--uts", "--net", "--pid", "--", *arguments]


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Start two hosts that reach each other; the names of their interfaces differ, as on different machines."""
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            missing(program, package)
    if os.geteuid() != 0:
        impossible("only root can make network namespaces")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hosts-")))
        first = stack.enter_context(_held("first-host", "10.77.0.1", "cable1", directory))
        second = stack.enter_context(_held("second-host", "10.77.0.2", "cable2", directory))
        _run(
            *("ip", "link", "add", first.interface, "netns", str(first.pid), "type", "veth"),
            *("peer", "name", second.interface, "netns", str(second.pid)),
        )
        for host in (first, second):
            _run(*host.command("ip", "address", "add", f"{host.address}/24", "dev", host.interface))
            _run(*host.command("ip", "link", "set", host.interface, "up"))
        yield first, second


@contextmanager
def _held(name: str, address: str, interface: str, directory: Path) -> Iterator[Host]:
    names = directory / name
    names.write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
    namespaces = ("--net", "--uts", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc")
    with subprocess.Popen(
        ["unshare", *namespaces, "sh", "-c", _HOLD, name, str(names)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stderr is not None
        try:
            if holder.stdout.readline() != "ready\n":
                impossible(f"no namespaces can be made here: {holder.stderr.read().strip()}")
            (inside,) = psutil.Process(holder.pid).children()
            yield Host(name, address, interface, inside.pid)
        finally:
            holder.kill()  # which also kills the first process of the host, and with it all others


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"
