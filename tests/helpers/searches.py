"""Experiments run by `det` in real processes, for tests to interrupt and to check.

search = Search(tmp_path, model_dir, config)
experiment = search.create()
search.activate(experiment)              # to its end
assert search.record(experiment) == ...
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from determined.config.dump import dump_yaml
from determined.store.open import open_store
from determined.store.store import Store
from tests.helpers import leaks, warm
from tests.helpers.hosts import Host
from tests.helpers.waiting import wait_until

DET = [sys.executable, "-m", "determined.cli"]


@dataclass
class Search:
    """A configuration and its model directory, with a separate data directory."""

    home: Path
    model_dir: Path
    config: dict[str, Any]
    slots: int = 2
    store: str | None = None  # DET_STORE
    environment: dict[str, str] = field(default_factory=dict)
    is_warm: bool = True  # `det` is forked from the warm interpreter (see `tests.helpers.warm`)
    host: Host | None = None  # of the runner, which is then not forked; other commands run on this machine

    def env(self) -> dict[str, str]:
        own = {"XDG_DATA_HOME": str(self.home), "OMP_NUM_THREADS": "1", **self.environment}
        return {**os.environ, **own, **({} if self.store is None else {"DET_STORE": self.store})}

    def det(self, *arguments: str, check: bool = True, timeout: float = 150) -> subprocess.CompletedProcess[str]:
        run = warm.run if self.is_warm else subprocess.run
        done = run([*DET, *arguments], env=self.env(), capture_output=True, text=True, timeout=timeout)
        assert not check or done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def create(self, *options: str) -> int:
        """Create the experiment without running it."""
        done = self.det("experiment", "create", *self.written(), "--paused", "--json", *options)
        return int(json.loads(done.stdout)["id"])

    def written(self) -> list[str]:
        """Write the configuration to a file; return it and the model directory, the arguments of `create`."""
        self.home.mkdir(parents=True, exist_ok=True)
        config = self.home / "config.yaml"
        config.write_text(dump_yaml(self.config))
        return [str(config), str(self.model_dir)]

    def start(self, experiment_id: int, *options: str) -> subprocess.Popen[str]:
        """Run it in the background, in a separate process group; its output is appended to `said`."""
        start = warm.Popen if self.is_warm and self.host is None else subprocess.Popen
        command = [*DET, "experiment", "activate", str(experiment_id), "--slots", str(self.slots), *options]
        with self.said.open("a") as output:
            return start(
                command if self.host is None else self.host.command(*command),
                env=self.env(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    @property
    def said(self) -> Path:
        return self.home / "said.txt"

    def activate(self, experiment_id: int, *, expect: int = 0, timeout: float = 150) -> str:
        """Run it to its end."""
        process = self.start(experiment_id)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        assert code == expect, self.said.read_text()
        return self.said.read_text()

    @contextmanager
    def opened(self) -> Iterator[Store]:
        store = open_store(self.store or self.home / "determined" / "store.sqlite")
        try:
            yield store
        finally:
            store.close()

    def wait_for(self, condition: Callable[[Store], object]) -> None:
        """Wait until the store satisfies the condition."""
        with self.opened() as store:
            wait_until(lambda: condition(store))

    def record(self, experiment_id: int) -> dict[str, Any]:
        """Return everything that must not depend on timing: decisions, states, metrics of every trial, and the best
        trial.
        """
        with self.opened() as store:
            experiment = store.experiments.get(experiment_id)
            trials: dict[int, dict[str, Any]] = {
                trial.number: {
                    "hparams": trial.hparams,
                    "seed": trial.seed,
                    "state": trial.state,
                    "bracket": trial.bracket,
                    "best": trial.best,
                    "saved": max((row.steps_completed for row in store.checkpoints(trial.id)), default=None),
                    "metrics": [
                        (metric.group, metric.steps_completed, json.dumps(metric.metrics, sort_keys=True))
                        for metric in sorted(
                            store.metrics(trial.id), key=lambda metric: (metric.group, metric.steps_completed or 0)
                        )
                    ],
                    "decisions": [],
                }
                for trial in store.experiments.trials(experiment_id)
            }
            for entry in store.experiments.journal(experiment_id):
                for action in entry.actions:
                    known = {name: value for name, value in action.items() if name in ("action", "goal", "finished")}
                    trials[action["number"]]["decisions"].append(known)
        return {"state": experiment.state, "best": experiment.best, "trials": trials}

    def processes(self) -> list[psutil.Process]:
        """Return the processes that work for this data directory, runners and trials alike."""
        return processes_of(self.home)

    def wait_for_exits(self) -> None:
        """Wait until no process works for this data directory: none outlives a killed runner."""
        wait_until(lambda: not self.processes(), "a process still works for this data directory")


def processes_of(home: Path) -> list[psutil.Process]:
    """Return the processes that work for a data directory."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            is_its_own = process.environ().get("XDG_DATA_HOME") == str(home) and process.pid != os.getpid()
            if is_its_own and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def end_processes(home: Path) -> None:
    """Kill the processes that work for a data directory, and remove the temporary files that they leave."""
    while left := processes_of(home):
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=1)
    # The temporary directory is used by this process only (see tests/conftest.py): its files belonged to the killed
    # ones.
    for sockets in Path(tempfile.gettempdir()).glob("det-*"):
        if not leaks.is_shared(sockets):
            shutil.rmtree(sockets)


def kill_after(process: subprocess.Popen[str], seconds: float) -> bool:
    """Send SIGKILL to the runner alone after a time; return False if it had already exited."""
    try:
        process.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True
