"""Searches in a separate data directory; their daemon and runners are ended with the test, also if it fails."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from determined.config.dump import dump_yaml
from determined.store.experiment_changes import Change, ExperimentChange
from determined.store.process import this_process, this_user
from determined.store.substores.queue import DEFAULT_PRIORITY, NewEntry
from tests.helpers import warm
from tests.helpers.searches import Search, end_processes

PATIENT = Path(__file__).parent / "models" / "patient"
SEARCH: dict[str, Any] = {
    "name": "patient",
    "entrypoint": "python3 train.py",
    "hyperparameters": {"lr": {"type": "double", "minval": 0.0, "maxval": 1.0}},
    "searcher": {"name": "random", "metric": "loss", "max_trials": 3, "max_concurrent_trials": 2},
    "reproducibility": {"experiment_seed": 3},
    "max_restarts": 0,
}


class QueuedSearch(Search):
    """Experiments in a queue with two slots."""

    def env(self) -> dict[str, str]:
        return {**super().env(), "DET_SLOTS": "2", "SLOWLY": str(self.home)}

    def slow_down(self, experiment_id: int) -> None:
        """Make its trials so slow that a test can act meanwhile."""
        (self.home / str(experiment_id)).touch()

    def hurry(self, experiment_id: int) -> None:
        (self.home / str(experiment_id)).unlink()

    def write_config(self, fields: dict[str, Any]) -> Path:
        path = self.home / "config.yaml"
        path.write_text(dump_yaml(fields))
        return path

    def detach(self, *options: str, **fields: Any) -> int:
        path = self.write_config({**self.config, **fields})
        done = self.det("experiment", "create", str(path), str(self.model_dir), "--detach", "--json", *options)
        return int(json.loads(done.stdout)["id"])

    def put_into_queue(self, experiment_id: int, priority: int = DEFAULT_PRIORITY) -> None:
        """Queue an experiment without starting a daemon."""
        with self.opened() as store:
            lease = store.experiments.acquire(experiment_id, this_process())
            store.queue.add(NewEntry(experiment_id, socket.gethostname(), this_user(), priority))
            store.experiments.commit(lease, Change(experiment=ExperimentChange(state="ACTIVE")))
            store.experiments.release(lease)

    def run_by(self, experiment_id: int, program: str) -> None:
        """Let this Python program be the runner of experiments; see `engines/granted.py` for its protocol."""
        path = self.home / f"runner-of-{experiment_id}"
        path.write_text(f"#!{sys.executable} -IS\n{program}")
        path.chmod(0o700)
        with self.opened() as store:
            key = store.experiments.get(experiment_id).key
        kept = self.home / "determined" / "experiments" / key / "surroundings.json"
        kept.write_text(json.dumps({"python": str(path), "environment": {"XDG_DATA_HOME": str(self.home)}}))

    def queue(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(self.det("queue", "--json").stdout)
        return listed

    def daemons(self) -> list[psutil.Process]:
        """Return the daemons, without forks of them that are about to become runners."""
        serving = {process.pid: process for process in self.processes() if "serve" in _words(process)}
        return [process for process in serving.values() if _parent(process) not in serving]

    def runners(self) -> list[psutil.Process]:
        return [process for process in self.processes() if "activate" in _words(process)]

    def kill(self, processes: list[psutil.Process]) -> None:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)

    def state(self, experiment_id: int) -> str:
        with self.opened() as store:
            return store.experiments.get(experiment_id).state

    def has_stopped(self, experiment_id: int) -> bool:
        return self.state(experiment_id) != "ACTIVE"

    def steps(self, experiment_id: int) -> list[int]:
        with self.opened() as store:
            return [trial.steps_completed for trial in store.experiments.trials(experiment_id)]

    def wait(self, experiment_id: int) -> None:
        self.det("experiment", "wait", str(experiment_id), "--polling-interval", "0.1")


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


def _parent(process: psutil.Process) -> int | None:
    try:
        return int(process.ppid())
    except psutil.NoSuchProcess:
        return None


@pytest.fixture(scope="package", autouse=True)
def warm_children() -> Iterator[None]:
    """Fork the daemons and engines that this process starts, so that they do not import torch again."""
    with warm.children():
        yield


@pytest.fixture
def searches(tmp_path: Path) -> Iterator[QueuedSearch]:
    home = tmp_path / "queued"
    home.mkdir()
    found = QueuedSearch(home, PATIENT, SEARCH)
    yield found
    end_processes(home)


@pytest.fixture
def here(searches: QueuedSearch, monkeypatch: pytest.MonkeyPatch) -> Iterator[QueuedSearch]:
    """Let this process use the data directory of the searches, and restore its signal handlers afterwards."""
    for name, value in searches.env().items():
        monkeypatch.setenv(name, value)
    taken = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in taken]
    yield searches
    for number, handler in zip(taken, before, strict=True):
        signal.signal(number, handler)
