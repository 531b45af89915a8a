"""The launcher, with real workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from determined import core, info
from determined.launch.torch_distributed import (
    UsageError,
    split_arguments,
    torchrun_options,
    worker_environment,
)
from tests.helpers import warm
from tests.helpers.waiting import PATIENCE_SECONDS

WORKER = """
import os, signal, sys
from determined import core
ranks = core.DistributedContext.from_torch_distributed()
everybody = ranks.allgather([ranks.rank, os.getpid()])
sys.stderr.write(f"alive {everybody} {os.environ['DET_CHIEF_IP']} {os.environ['USE_TORCH_DISTRIBUTED']}\\n")
if sys.argv[1] == "exit":
    sys.exit(int(sys.argv[2]) if ranks.rank == 1 else 0)
if sys.argv[1] == "die" and ranks.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "politely":
    signal.signal(signal.SIGTERM, lambda *_: (sys.stderr.write("saved\\n"), sys.exit(0)))
    signal.signal(signal.SIGUSR1, lambda *_: sys.stderr.write("shown\\n"))
    # Not signal.pause(), which misses a signal that comes just before it: the C handler writes to this pipe.
    came, note = os.pipe()
    os.set_blocking(note, False)
    signal.set_wakeup_fd(note)
    sys.stderr.write("waiting\\n")
    while True:
        os.read(came, 1)
while True:
    signal.pause()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(WORKER)
    return path


def start(*arguments: Any, is_warm: bool = True, **env: str) -> subprocess.Popen[str]:
    """Start the launcher; with `is_warm`, it and its workers are forked from the warm interpreter."""
    return (warm.Popen if is_warm else subprocess.Popen)(
        [sys.executable, "-m", "determined.launch.torch_distributed", *map(str, arguments)],
        env={**os.environ, "DET_SLOTS": "2", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], timeout: float = 60) -> tuple[int, str]:
    try:
        _, errors = process.communicate(timeout=timeout)
    finally:
        process.kill()
        process.communicate()
    return process.returncode, errors


def read_until(process: subprocess.Popen[str], words: str, times: int) -> str:
    assert process.stderr is not None
    text = ""
    while text.count(words) < times:
        line = process.stderr.readline()
        assert line, text
        text += line
    return text


@pytest.mark.parametrize(("exit_code", "expected"), [(0, 0), (3, 3)])
def test_nothing_is_left_in_the_temporary_directory(
    script: Path, tmp_path: Path, exit_code: int, expected: int
) -> None:
    """This includes a failing worker: torchrun itself leaves the directory that it creates for logs."""
    (tmp_path / "tmp").mkdir()
    code, errors = finish(start(script, "exit", exit_code, TMPDIR=str(tmp_path / "tmp")))
    assert code == expected, errors
    assert list((tmp_path / "tmp").iterdir()) == []


def test_one_worker_for_each_slot(script: Path) -> None:
    code, errors = finish(start(script, "exit", 0, is_warm=False))
    assert code == 0, errors
    for rank in (0, 1):
        assert f"[rank={rank}] alive [[0, " in errors
    assert "127.0.0.1 True" in errors


def test_options_for_torchrun_and_the_command_python(script: Path) -> None:
    code, errors = finish(
        start("--nproc_per_node", 1, "--", "python3", "-c", "import sys; sys.exit(sys.version_info[0])")
    )
    assert code == 3, errors


def test_a_failing_worker_ends_the_others(script: Path) -> None:
    code, errors = finish(start(script, "die"))
    assert code == 128 + signal.SIGKILL
    assert "rank 1 failed first" in errors


def test_signals_reach_the_workers(script: Path) -> None:
    process = start(script, "politely")
    read_until(process, "waiting", 2)
    process.send_signal(signal.SIGUSR1)
    read_until(process, "shown", 2)
    process.send_signal(signal.SIGTERM)
    code, errors = finish(process)
    assert errors.count("saved") == 2
    assert code == 128 + signal.SIGTERM


def test_no_worker_outlives_a_killed_launcher(script: Path, tmp_path: Path) -> None:
    process = start(script, "ignore", is_warm=False, TMPDIR=str(tmp_path))  # it cannot remove its temporary files
    text = read_until(process, "alive", 2)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) == 4, text  # two workers, each in its wrapper
    process.kill()
    _, alive = psutil.wait_procs(workers, timeout=PATIENCE_SECONDS)
    finish(process)
    assert alive == []


@pytest.mark.parametrize("arguments", [[], ["--"], ["--trial"], ["--nproc_per_node", "2"], ["missing.py"]])
def test_command_lines_that_say_nothing(arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        split_arguments(arguments)


def test_command_lines(script: Path) -> None:
    assert split_arguments([str(script), "--", "x"]) == ([], [sys.executable, str(script), "--", "x"])
    assert split_arguments(["--", "python", "x"]) == ([], [sys.executable, "x"])
    assert split_arguments(["--max-restarts=1", "--", "./run.sh", "-v"]) == (["--max-restarts=1"], ["./run.sh", "-v"])
    assert split_arguments(["--trial", "m:C"]) == ([], [sys.executable, "-m", "determined.exec.harness", "m:C"])


def two_nodes() -> info.ClusterInfo:
    with core.init() as context:
        env = info.to_env(context.info)
    env |= {
        "DET_CONTAINER_ADDRS": '["10.0.0.1", "10.0.0.2"]',
        "DET_CONTAINER_RANK": "1",
        "DET_CONTAINER_SLOT_COUNTS": "[4, 4]",
    }
    found = info.from_env(env)
    assert found is not None
    return found


def test_several_nodes_meet_at_the_chief() -> None:
    nodes = two_nodes()
    options = torchrun_options(nodes, slots=4)
    for expected in ("--nnodes=2", "--node-rank=1", "--master-addr=10.0.0.1", "--nproc-per-node=4"):
        assert expected in options
    env = worker_environment(nodes, {}, has_gpus=False)
    assert env["DET_CHIEF_IP"] == "10.0.0.1"
    assert "GLOO_SOCKET_IFNAME" not in env


def test_one_node_stays_on_loopback() -> None:
    assert "--rdzv-endpoint=127.0.0.1:0" in torchrun_options(None, slots=2)
    assert worker_environment(None, {}, has_gpus=False)["GLOO_SOCKET_IFNAME"].startswith("lo")
    assert "GLOO_SOCKET_IFNAME" not in worker_environment(None, {}, has_gpus=True)
    assert "GLOO_SOCKET_IFNAME" not in worker_environment(None, {"GLOO_SOCKET_IFNAME": "eth0"}, has_gpus=False)


@pytest.mark.parametrize("name", ["horovod", "deepspeed"])
def test_other_launchers_are_names_of_this_one(name: str) -> None:
    done = warm.run(
        [sys.executable, "-m", f"determined.launch.{name}", "python3", "-c", "print('ran')"],
        env={**os.environ, "DET_SLOTS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[rank=0] ran\n"
    assert "torch_distributed" in done.stderr
