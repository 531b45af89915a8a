"""The Slurm script of the examples, on two `slurmd` of this machine: an experiment continues after the limit of its
job.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psutil
import pytest

from determined.store.open import open_store
from tests.helpers.system import impossible, missing

SCRIPT = Path(__file__).parents[2] / "examples" / "clusters" / "slurm.sh"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "srun")
STEPS = 2000

# Slow until it was resumed, so that the time limit is reached first on any machine.
TRAIN = f"""
import time
from determined import core, get_cluster_info

latest = get_cluster_info().latest_checkpoint
with core.init() as context:
    first = 1
    if latest is not None:
        with context.checkpoint.restore_path(latest) as path:
            first = int((path / "step").read_text()) + 1
    for step in range(first, {STEPS} + 1):
        if latest is None:
            time.sleep(1)
        if step % 10 == 0 or latest is None:
            context.train.report_validation_metrics(step, {{"loss": 1 / step}})
        if context.preempt.should_preempt():
            with context.checkpoint.store_path({{"steps_completed": step}}) as (path, _):
                (path / "step").write_text(str(step))
            break
"""

CONFIG = """
name: slurm
entrypoint: python3 train.py
searcher: {{name: single, metric: loss, max_length: {{batches: {steps}}}}}
resources: {{slots_per_trial: 1}}
checkpoint_storage: {{type: shared_fs, host_path: {storage}}}
max_restarts: 0
"""

SLURM = """
ClusterName=test
FirstJobId={first_job}
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/affinity
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.%n.pid
SlurmdSpoolDir={home}/spool.%n
StateSaveLocation={home}/state
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd.%n.log
SlurmctldPort={ports[0]}
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
KillWait=30
MinJobAge=300
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 RealMemory=1000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=1000
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""

pytestmark = pytest.mark.timeout(1800)


def free_ports(number: int) -> list[int]:
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture
def slurm(tmp_path: Path, data_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start a Slurm cluster of two nodes on this machine."""
    if not all(map(shutil.which, PROGRAMS)):
        missing("Slurm", "slurm-wlm munge")
    if os.geteuid() != 0:
        impossible("only root can run the daemons of Slurm")
    home = tmp_path / "slurm"
    (home / "state").mkdir(parents=True)
    # Jobs and daemons of Slurm run in directories that no other user can enter.
    home.chmod(0o755)
    conf = home / "slurm.conf"
    ports = free_ports(3)
    # The script derives the port of Ray from the number of a job, and another cluster of this machine may use that
    # port.
    first_job = 1 + ports[0] % 10_000
    host = socket.gethostname().partition(".")[0]
    conf.write_text(SLURM.format(home=home, host=host, ports=ports, first_job=first_job))
    monkeypatch.setenv("SLURM_CONF", str(conf))
    monkeypatch.setenv("PATH", os.pathsep.join([str(programs(home)), os.environ["PATH"]]))
    key = home / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    files = [
        f"--{name}={home}/munge.{name.partition('-')[0]}" for name in ("socket", "log-file", "pid-file", "seed-file")
    ]
    commands = [
        ["munged", "--foreground", "--force", f"--key-file={key}", *files],
        ["slurmctld", "-D", "-f", str(conf)],
        ["slurmd", "-D", "-N", "n1", "-f", str(conf)],
        ["slurmd", "-D", "-N", "n2", "-f", str(conf)],
    ]
    running: list[subprocess.Popen[bytes]] = []
    output = (home / "daemons.log").open("wb")
    try:
        for command in commands:
            running.append(subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL))
            if command[0] == "munged":
                wait_until((home / "munge.socket").exists, "munged listens")
        wait_until(lambda: idle_nodes() == 2, "nodes are idle")
        yield
        ask("scancel", "--user=root")
        wait_until(lambda: not ask("squeue", "--noheader"), "jobs have ended")
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait()
        output.close()


def programs(home: Path) -> Path:
    """Return a directory with the programs of this interpreter that the script calls."""
    directory = home / "bin"
    directory.mkdir()
    for name, arguments in {"det": "-m determined.cli", "ray": "-m ray.scripts.scripts", "python3": ""}.items():
        (directory / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        (directory / name).chmod(0o755)
    return directory


def ask(*command: str) -> str:
    """Return the output of a command of Slurm; empty while its daemons start."""
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def reports(place: Path) -> int:
    """Return the number of reports of the first trial."""
    with closing(open_store(str(place))) as store:
        return len(store.metrics(1))


def cpus_of_tasks(job: str) -> set[int]:
    """Return how many CPUs each process may use that `srun` has started for a job."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            variables = process.environ()
            if (variables.get("SLURM_JOB_ID"), variables.get("SLURM_STEP_ID")) == (job, "0"):
                found.add(len(process.cpu_affinity()))
    return found


def seconds_since_start(job: str) -> int:
    """Return the seconds for which a job has been running."""
    fields = ask("squeue", "--noheader", "--job", job, "--format=%M").split(":")
    return sum(int(field) * 60**power for power, field in enumerate(reversed(fields)))


def idle_nodes() -> int:
    found = [line.split() for line in ask("sinfo", "--noheader", "--format=%T %D").splitlines()]
    return sum(int(count) for state, count in found if state == "idle")


def wait_until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds:g} s not yet: {what}"
        time.sleep(0.5)


def test_an_experiment_is_continued_in_the_job_that_is_queued_again(
    slurm: None, tmp_path: Path, data_home: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "train.py").write_text(TRAIN)
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(steps=STEPS, storage=tmp_path / "storage"))
    submitted = subprocess.run(
        [
            "sbatch",
            "--parsable",
            "--exclusive",
            "--time=30",
            "--signal=B:TERM@180",
            str(SCRIPT),
            str(config),
            str(model),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    job = submitted.stdout.strip()
    log = tmp_path / f"slurm-{job}.out"

    def state() -> str:
        return ask("squeue", "--noheader", "--job", job, "--format=%T")

    def has_ended() -> bool:
        return state() in ("", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")

    def is_queued_again() -> bool:
        assert not has_ended(), log.read_text()
        return state() == "PENDING"

    def has_reported() -> bool:
        assert not has_ended(), log.read_text()
        return bool(place.exists() and reports(place))

    place = data_home / "determined" / "store.sqlite"
    wait_until(has_reported, "the trial has reported", seconds=300.0)
    output = log.read_text()
    assert sorted(re.findall(r"^\W*\S+\W+[\d.]+\W+(\d)\b", output, re.MULTILINE)) == ["1", "2"], output
    # Of Ray's processes on the second node, which Slurm starts as a task.
    assert cpus_of_tasks(job) == {2}
    # Slurm looks at time limits, in minutes, every 30 seconds: the signal comes with the next look.
    minutes = (seconds_since_start(job) + 59) // 60 + 2
    ask("scontrol", "update", f"JobId={job}", f"TimeLimit={minutes}")
    wait_until(is_queued_again, "the job is queued again", seconds=300.0)
    # Slurm lets it wait for two minutes otherwise.
    ask("scontrol", "update", f"JobId={job}", "TimeLimit=30", "StartTime=now")
    wait_until(has_ended, "the job has ended", seconds=300.0)
    output = log.read_text()
    assert "the job is queued again" in output, output
    assert re.search(r"Restarts=[1-9]", ask("scontrol", "show", "job", job)), output
    assert "trial 1 resumed" in output, output
    with closing(open_store(str(place))) as store:
        experiment = store.experiments.get(1)
        (trial,) = store.experiments.trials(experiment.id)
        assert (experiment.state, trial.state) == ("COMPLETED", "COMPLETED"), output
    assert not list(Path("/tmp").glob(f"ray-{job}-*"))
