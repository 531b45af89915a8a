"""How soon an experiment on a Ray cluster resumes, saves or ends after a failure, with Ray's default settings."""

from __future__ import annotations

import importlib.util
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cases.searching import MODELS
from bench.measure import Effort
from bench.table import Row, not_installed

if TYPE_CHECKING:
    from tests.helpers.searches import Search
    from tests.ray.cluster import RayCluster, RayNode

CASE = "faults on a Ray cluster"
FIRST, SECOND = "127.0.0.3", "127.0.0.4"
TRIALS = 2
_PATIENCE = 90.0


def cluster_faults(effort: Effort) -> list[Row]:
    """One cluster, and one fault after the other. All times are wall-clock times."""
    if importlib.util.find_spec("ray") is None:
        return [not_installed(CASE, "ray")]
    from tests.ray.cluster import RayCluster

    with RayCluster(cpus=0, health_checks={}) as ray, tempfile.TemporaryDirectory(prefix="bench-") as directory:
        running = _Running(ray, Path(directory))
        ray.arrange({FIRST: TRIALS, SECOND: TRIALS})  # each has slots for all trials if the other is lost
        with running.experiment("a", TRIALS):
            actor = running.until_resumed(running.busy_node().kill_actors)
            raylet = running.until_resumed(running.busy_node().kill_raylet)
            runner = running.until_runner_has_exited()
        ray.arrange({FIRST: 1})
        with running.experiment("b", 1):
            joined = running.until_used(SECOND)
            head = running.until_saving(lambda: ray.head.kill_program("gcs_server"))
    return [
        *_resumed("node actor killed", actor),
        *_resumed("raylet killed", raylet),
        _row("runner killed: no process left", runner, 5.0),
        _row("node joined: first used", joined, 2.0),
        _row("head lost: trials begin to save", head, 10.0),
    ]


def _resumed(what: str, times: tuple[float, float]) -> list[Row]:
    after_kill, after_notice = times
    return [
        _row(f"{what}: first step, after Ray's notice", after_notice, 5.0),
        _row(f"{what}: first step, after the kill", after_kill, 20.0),
    ]


def _row(who: str, seconds: float, limit: float) -> Row:
    return Row(CASE, who, us=seconds * 1e6, must_be=f"<= {limit:g} s", ok=seconds <= limit)


class _Running:
    """An experiment on a cluster, of trials that run until they are stopped."""

    def __init__(self, ray: RayCluster, directory: Path) -> None:
        self._ray, self._directory = ray, directory
        self._search: Search
        self._runner: Any = None

    @contextmanager
    def experiment(self, name: str, started: int) -> Iterator[None]:
        """Run it until the end of the context, which is entered when N trials have started."""
        from tests.helpers.searches import Search

        home = self._directory / name
        self._place = home / "steps"
        self._place.mkdir(parents=True)
        config = {
            "name": "bench",
            "entrypoint": "python3 beating.py",
            "hyperparameters": {"place": str(self._place)},
            "searcher": {"name": "random", "metric": "loss", "max_length": {"batches": 100_000}, "max_trials": TRIALS},
            "checkpoint_storage": {"type": "shared_fs", "host_path": str(home)},
        }
        self._search = Search(home, MODELS, config, environment=self._ray.environment(), is_warm=False)
        experiment = self._search.create()
        self._runner = self._search.start(experiment)
        try:
            _until(lambda: len(self._started()) >= started)
            yield
        finally:
            self._runner.kill()
            self._runner.wait()

    def busy_node(self) -> RayNode:
        """Return a node on which trials run."""
        return next(node for node in self._ray.nodes.values() if node.actors())

    def until_resumed(self, kill: Callable[[], None]) -> tuple[float, float]:
        """Return the seconds until a trial makes its first step again: after the kill, and after the runner noticed the
        loss.
        """
        before, losses = self._started(), self._losses()
        killed = time.time()
        kill()
        noticed = _until(lambda: self._losses() > losses)
        _until(lambda: len(self._started()) > len(before))
        (first,) = [when for name, when in self._started().items() if name not in before][:1]
        return first - killed, first - noticed

    def until_runner_has_exited(self) -> float:
        """Return the seconds until no process of a killed runner is left, here and on the nodes."""
        began = time.time()
        self._runner.kill()
        nodes = [node for node in self._ray.nodes.values() if node.has_raylet()]
        return _until(lambda: not any(node.workers() for node in nodes) and not self._search.processes()) - began

    def until_used(self, address: str) -> float:
        """Return the seconds from the moment when a new node has joined until it has an actor of the experiment."""
        node: RayNode = self._ray.add_node(address, cpus=1)
        began = time.time()
        return _until(lambda: bool(node.actors())) - began

    def until_saving(self, kill: Callable[[], None]) -> float:
        """Return the seconds from the loss of the head until a trial begins to save."""
        began = time.time()
        kill()
        _until(lambda: any(self._place.glob("saving-*")))
        return min(float(path.read_text()) for path in self._place.glob("saving-*")) - began

    def _started(self) -> dict[str, float]:
        """Return when each process of a trial made its first step."""
        found = {path.name: path.read_text() for path in self._place.iterdir() if not path.name.startswith("saving")}
        return {name: float(text) for name, text in found.items() if text}

    def _losses(self) -> int:
        return self._search.said.read_text().count("was lost") if os.path.exists(self._search.said) else 0


def _until(condition: Callable[[], bool]) -> float:
    """Return when the condition was first seen to hold."""
    deadline = time.time() + _PATIENCE
    while not condition():
        if time.time() > deadline:
            raise TimeoutError(f"it did not happen within {_PATIENCE:g} s")
        time.sleep(0.01)
    return time.time()
