"""Run one function or script as several real ranks, each a process of its own, and collect what they say.

    def both() -> list[int]:                       # a function at module level of a test file
        context = core.DistributedContext.from_torch_distributed()
        return context.allgather(context.rank)

    results = run_ranks(both, n=2)
    assert [r.value for r in results] == [[0, 1], [0, 1]]

What may be run:

- a function at module level: called with `args`, its return value comes back as `value` (both travel as
  JSON);
- a `Path`: a script, started with `args` as its command line;
- a `str`: Python source, started by `python -c` with `args` as its command line.

A script or a source gives a value back by `put_result(anything JSON can hold)`.

Every rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, MASTER_ADDR
and a free MASTER_PORT, as from torchrun; `nodes=2` makes half of them believe to be on a second node. `env`
is added on top; a value of None removes a variable. After `timeout` seconds all ranks and their children
are killed and the test fails with their output. A rank that ends with another code than 0 fails the test as
well, unless `check=False`.

`start_ranks` takes the same arguments (without `timeout` and `check`) and returns the running `Ranks`, for
tests that send signals: `ranks.processes[1].pid`, then `ranks.wait(timeout)`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers import warm

REPOSITORY = Path(__file__).resolve().parents[2]
RESULT_VARIABLE = "TEST_RANK_RESULT"

Target = Callable[..., object] | Path | str


@dataclass(frozen=True)
class RankResult:
    """The result of one rank; `value` is None if it returned none."""

    rank: int
    returncode: int
    stdout: str
    stderr: str
    value: Any
    seconds: float

    def __str__(self) -> str:
        return (
            f"rank {self.rank}: exit code {self.returncode} after {self.seconds:.1f} s\n"
            f"--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"
        )


def free_port() -> int:
    """Return a port on which no process listens at this moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def put_result(value: object) -> None:
    """Pass a value to the test that started this rank."""
    Path(os.environ[RESULT_VARIABLE]).write_text(json.dumps(value))


class Ranks:
    """The running ranks of one job."""

    def __init__(self, directory: tempfile.TemporaryDirectory[str], processes: list[subprocess.Popen[str]]) -> None:
        self.processes = processes
        self._directory = directory
        self._started = time.monotonic()

    def wait(self, timeout: float = 60, only: Sequence[int] | None = None) -> list[RankResult]:
        """Wait for all ranks, or for those in `only`, and kill the rest; fail after `timeout` seconds."""
        awaited = range(len(self.processes)) if only is None else only
        deadline = self._started + timeout
        ended: dict[int, float] = {}
        try:
            while len(ended) < len(awaited) and time.monotonic() < deadline:
                for rank, process in enumerate(self.processes):
                    if rank in awaited and rank not in ended:
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            process.wait(timeout=0.02)
                            ended[rank] = time.monotonic() - self._started
        finally:
            self.kill()
        results = [self._result(rank, ended.get(rank, timeout)) for rank in range(len(self.processes))]
        self._directory.cleanup()
        late = [rank for rank in awaited if rank not in ended]
        if late:
            raise AssertionError(
                f"ranks {late} did not end within {timeout} s\n" + "\n".join(str(result) for result in results)
            )
        return results

    def kill(self) -> None:
        """Kill all remaining ranks and their children."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _result(self, rank: int, seconds: float) -> RankResult:
        directory = Path(self._directory.name)
        value_file = directory / f"{rank}.json"
        return RankResult(
            rank=rank,
            returncode=self.processes[rank].returncode,
            stdout=(directory / f"{rank}.out").read_text(errors="replace"),
            stderr=(directory / f"{rank}.err").read_text(errors="replace"),
            value=json.loads(value_file.read_text()) if value_file.exists() else None,
            seconds=seconds,
        )


def start_ranks(
    target: Target,
    n: int = 2,
    *,
    args: Sequence[Any] = (),
    nodes: int = 1,
    env: Mapping[str, str | None] | None = None,
    cwd: Path | None = None,
) -> Ranks:
    """Start `n` ranks and return at once."""
    if n % nodes:
        raise ValueError(f"{n} ranks cannot be spread evenly over {nodes} nodes")
    directory = tempfile.TemporaryDirectory(prefix="ranks-")
    port = free_port()
    local_size = n // nodes
    processes: list[subprocess.Popen[str]] = []
    for rank in range(n):
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")])),
            "OMP_NUM_THREADS": "1",
            "RANK": str(rank),
            "WORLD_SIZE": str(n),
            "LOCAL_RANK": str(rank % local_size),
            "LOCAL_WORLD_SIZE": str(local_size),
            "GROUP_RANK": str(rank // local_size),
            "GROUP_WORLD_SIZE": str(nodes),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            RESULT_VARIABLE: str(Path(directory.name) / f"{rank}.json"),
        }
        if nodes > 1:
            variables["DET_CHIEF_IP"] = "127.0.0.1"
        for name, value in (env or {}).items():
            if value is None:
                variables.pop(name, None)
            else:
                variables[name] = value
        with (
            open(Path(directory.name) / f"{rank}.out", "w") as stdout,
            open(Path(directory.name) / f"{rank}.err", "w") as stderr,
        ):
            processes.append(
                warm.Popen(
                    _command(target, args),
                    env=variables,
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    text=True,
                )
            )
    return Ranks(directory, processes)


def run_ranks(
    target: Target,
    n: int = 2,
    *,
    args: Sequence[Any] = (),
    nodes: int = 1,
    env: Mapping[str, str | None] | None = None,
    cwd: Path | None = None,
    timeout: float = 60,
    check: bool = True,
) -> list[RankResult]:
    """Run `n` ranks to their end; see the top of this file."""
    results = start_ranks(target, n, args=args, nodes=nodes, env=env, cwd=cwd).wait(timeout)
    if check and any(result.returncode for result in results):
        raise AssertionError("a rank failed\n" + "\n".join(str(result) for result in results))
    return results


def _command(target: Target, args: Sequence[Any]) -> list[str]:
    if isinstance(target, Path):
        return [sys.executable, str(target), *map(str, args)]
    if isinstance(target, str):
        return [sys.executable, "-c", target, *map(str, args)]
    # Not by `-m`: the program would then be this repository, and each run would take a snapshot of it.
    call = "import sys; from tests.helpers.ranks import call; call(*sys.argv[1:])"
    return [sys.executable, "-c", call, f"{target.__module__}:{target.__qualname__}", json.dumps(list(args))]


def call(spec: str, args: str) -> None:
    """Call `module:function` with arguments in JSON, and pass its result to the test."""
    module, _, name = spec.partition(":")
    function = getattr(importlib.import_module(module), name)
    put_result(function(*json.loads(args)))
