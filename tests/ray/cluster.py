"""Real Ray clusters on the loopback addresses of this machine, which tests can extend and damage.

with RayCluster() as cluster:     cluster.add_node("127.0.0.3")     search.environment.update(cluster.environment())
# --engine ray:127.0.0.2:PORT     cluster.nodes["127.0.0.3"].kill()

Every node has a separate data directory, by which its processes are found: `ray stop` would end every cluster of the
user.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.helpers.hosts import Host
from tests.helpers.searches import processes_of

HEAD = "127.0.0.2"
REPOSITORY = Path(__file__).parents[2]

# Ray's own settings take 15 s to notice that a node has died; with these it takes 2 to 5 s.
FAST_HEALTH_CHECKS = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}
_SECONDS_TO_START = 120


@dataclass
class RayNode:
    """The processes of one node: its raylet, agents and workers, and everything that these have started."""

    address: str
    home: Path  # XDG_DATA_HOME of all its processes
    cpus: int

    def processes(self) -> list[psutil.Process]:
        found = processes_of(self.home)
        # Ray's agents write their titles over their environment, so that they are found by their parents only.
        below = {child for process in found for child in _children(process)}
        return [*found, *(below - set(found))]

    def raylet(self) -> psutil.Process:
        (found,) = [one for one in self.processes() if _name(one) == "raylet"]
        return found

    def actors(self) -> list[psutil.Process]:
        """Return the processes of the actors `NodeActor`: one for each experiment that uses this node."""
        return [one for one in self.processes() if _name(one).startswith("ray::NodeActor")]

    def files(self) -> list[str]:
        """Return the files that experiments have created on the node and not deleted."""
        found = [*(self.home / "tmp").glob("det-*"), *(self.home / "determined" / "nodes").glob("*/*")]
        return [str(path.relative_to(self.home)) for path in found]

    def workers(self) -> list[psutil.Process]:
        """Return the actors, the warm processes in them, and jobs, which are forks of these."""
        return [*self.actors(), *(one for one in self.processes() if "warm.server" in _command(one))]

    def has_raylet(self) -> bool:
        return any(_name(one) == "raylet" for one in self.processes())

    def kill_program(self, name: str) -> None:
        self._end([one for one in self.processes() if _name(one) == name])

    def kill(self) -> None:
        """Kill everything on the node at once, as a loss of power does."""
        self._end(self.processes())

    def kill_raylet(self) -> None:
        self._end([self.raylet()])

    def kill_actors(self) -> None:
        self._end(self.actors())

    def freeze(self) -> list[psutil.Process]:
        """Stop all its processes, as on a machine that hangs; return them, to be continued."""
        frozen = self.processes()
        for process in frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)
        return frozen

    def clean_up(self) -> None:
        """End the remaining processes of the node, wherever they are."""
        while left := self.processes():
            self._end(left)

    @staticmethod
    def _end(processes: list[psutil.Process]) -> None:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=5)


@dataclass
class RayCluster:
    """A head and further nodes, on this machine or on `hosts`. Use it as a context."""

    cpus: int = 2
    gpus: int = 0
    variables: dict[str, str] = field(default_factory=dict)  # of all nodes
    is_authenticated: bool = False
    health_checks: dict[str, str] = field(default_factory=lambda: FAST_HEALTH_CHECKS)
    head_address: str = HEAD
    hosts: dict[str, Host] = field(default_factory=dict)  # by address; others are addresses of this machine
    nodes: dict[str, RayNode] = field(default_factory=dict)
    port: int = 0  # of the head; 0 for any that is free
    head_options: tuple[str, ...] = ()

    def __enter__(self) -> RayCluster:
        # Short, because the length of the paths of Ray's sockets is limited.
        self._directory = Path(tempfile.mkdtemp(prefix="rayt-", dir="/tmp"))
        if self.is_authenticated:
            self.token.write_text("t0ken-of-this-cluster" * 2)
            self.token.chmod(0o600)
        try:
            self._start(
                self.head_address,
                ["--head", f"--port={self.port}", "--include-dashboard=false", *self.head_options],
            )
            self.port = self._find_port()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.clean_up()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def address(self) -> str:
        return f"{self.head_address}:{self.port}"

    @property
    def head(self) -> RayNode:
        return self.nodes[self.head_address]

    @property
    def token(self) -> Path:
        return self._directory / "token"

    def settings(self) -> dict[str, str]:
        """Return the variables with which any program uses this cluster."""
        own = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token" if self.is_authenticated else "disabled"}
        return own | ({"RAY_AUTH_TOKEN_PATH": str(self.token)} if self.is_authenticated else {})

    def environment(self) -> dict[str, str]:
        """Return the variables with which `det` runs experiments on this cluster."""
        return {**self.settings(), "DET_ENGINE": f"ray:{self.address}"}

    def variables_of_programs(self) -> dict[str, str]:
        """Return the environment for other programs that use this cluster."""
        return {**self._environment(self.head.home, {}), "RAY_ADDRESS": self.address}

    def add_node(
        self, address: str, *, cpus: int | None = None, gpus: int | None = None, variables: dict[str, str] | None = None
    ) -> RayNode:
        return self._start(address, [f"--address={self.address}"], cpus=cpus, gpus=gpus, variables=variables or {})

    def arrange(self, cpus: Mapping[str, int]) -> None:
        """Make the cluster have nodes with these addresses and CPUs beside the head, and no others."""
        missing = dict(cpus)
        for address, node in self.nodes.items():
            if address != self.head_address and node.has_raylet() and cpus.get(address) == node.cpus:
                del missing[address]
            elif address != self.head_address:
                node.clean_up()
        with ThreadPoolExecutor() as starting:
            list(starting.map(lambda address: self.add_node(address, cpus=missing[address]), missing))

    def ray(self, *arguments: str) -> str:
        """Return the output of a command of Ray, such as `ray status`."""
        done = subprocess.run(
            [sys.executable, "-m", "ray.scripts.scripts", *arguments],
            env=self.variables_of_programs(),
            capture_output=True,
            text=True,
            timeout=_SECONDS_TO_START,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _start(
        self,
        address: str,
        options: list[str],
        *,
        cpus: int | None = None,
        gpus: int | None = None,
        variables: dict[str, str] | None = None,
    ) -> RayNode:
        home = self._directory / f"{address}-{len(list(self._directory.glob(f'{address}-*')))}"
        (home / "tmp").mkdir(parents=True)
        cpus = self.cpus if cpus is None else cpus
        node = self.nodes[address] = RayNode(address, home, cpus)
        if "--head" in options:
            options = [*options, f"--temp-dir={self._directory / 'ray'}"]
        command = [
            *(sys.executable, "-m", "ray.scripts.scripts", "start"),
            *options,
            f"--node-ip-address={address}",
            f"--num-cpus={cpus}",
            f"--num-gpus={self.gpus if gpus is None else gpus}",
            "--object-store-memory=80000000",
            "--disable-usage-stats",
        ]
        variables = {**(variables or {})}
        if address in self.hosts:
            command = self.hosts[address].command(*command)
            variables["HOME"] = str(home)
        output = home / "start.txt"
        for tries in range(3):
            with output.open("w") as file:
                code = subprocess.run(
                    command,
                    env=self._environment(home, variables),
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    timeout=_SECONDS_TO_START,
                ).returncode
            # Ray gives a node 30 seconds, which is too little on a busy machine, and has no setting for it.
            if "timed out during startup" not in output.read_text() or tries == 2:
                break
            node.clean_up()
        assert code == 0, output.read_text()
        return node

    def _environment(self, home: Path, variables: dict[str, str]) -> dict[str, str]:
        """Return the environment without variables of the running test: the cluster serves several."""
        kept = ("PATH", "HOME", "LANG", "TZ", "PYTHONDONTWRITEBYTECODE")
        outer = {name: os.environ[name] for name in kept if name in os.environ}
        # Setups of tests are imported from this repository.
        own = {"XDG_DATA_HOME": str(home), "TMPDIR": str(home / "tmp"), "PYTHONPATH": str(REPOSITORY)}
        return {**outer, **self.health_checks, **own, **self.settings(), **self.variables, **variables}

    def _find_port(self) -> int:
        """Return the port of the head, from the command that `ray start` shows for further nodes."""
        text = (self.head.home / "start.txt").read_text()
        (port,) = set(re.findall(rf"--address='{re.escape(self.head_address)}:(\d+)'", text))
        return int(port)


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def _name(process: psutil.Process) -> str:
    """Return the program of a process, or the title that Ray gives it: `ray::NodeActor.events`."""
    try:
        words = process.cmdline()
    except psutil.NoSuchProcess:
        return ""
    return os.path.basename(words[0].split(" ")[0]) if words else ""


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [one for one in process.children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]
    except psutil.NoSuchProcess:
        return []
