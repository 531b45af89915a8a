"""An engine that runs trials here and reports nodes as the engine of a cluster does; its nodes can fail."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from determined.engines.base import Event, Exited, Job
from determined.engines.local import LocalEngine
from determined.engines.ray.encoding import decode_event, encode_job
from determined.engines.ray.node.jobs import NodeJobs
from determined.engines.ray.node.setup import NodeSetup
from determined.engines.relay_socket import RelaySocket
from determined.errors import EngineError
from determined.experiment.code.directories import make_work_dir
from determined.store.open import checked_place


class FullDisk:
    """The setup of a node whose disk is full."""

    def place(self, job: Job) -> Job:
        raise EngineError("no space left on device")


class OneDirectory:
    """The setup of a node whose jobs work in the model directory itself, or in copies in a directory of the node."""

    def __init__(self, model: Path, root: Path | None) -> None:
        self._model, self._root = model, root

    def place(self, job: Job) -> Job:
        directory = self._model if self._root is None else make_work_dir(self._model, self._root / job.directory)
        return replace(job, directory=directory)

    def output(self) -> list[tuple[float, str]]:
        return []


class Nodes(LocalEngine):
    """An engine that starts each job on the next of the nodes, and then always on the last one.

    A job cannot be started on the nodes in `full`. A job that is killed by SIGKILL is reported as lost with its node.
    With `roots` each node has a directory in there, with the working directories of its jobs.
    """

    def __init__(
        self, model: Path, nodes: Sequence[str], full: Sequence[str] = (), roots: Path | None = None, slots: int = 1
    ) -> None:
        super().__init__(slots)
        self._model, self._nodes, self._full, self._roots = model, list(nodes), full, roots
        self._placed: dict[str, str] = {}
        self._said: list[Event] = []

    @property
    def spans_machines(self) -> bool:
        return True

    def where(self, key: str) -> list[str]:
        return [self._placed[key]] if key in self._placed else []

    def start(self, job: Job) -> list[int]:
        if job.part is not None:  # by the node
            environment = {**job.environment, "DET_STORE": checked_place()}
            return super().start(replace(job, environment=environment, part=None))
        self._placed[job.key] = node = self._nodes[0]
        self._nodes = self._nodes[1:] or self._nodes
        self._said += self._said_at_start(job, node)
        return [0]

    def events(self, timeout: float) -> list[Event]:
        found = [*self._said, *super().events(0.0 if self._said else timeout)]
        self._said = []
        return [self._as_loss(event) if isinstance(event, Exited) else event for event in found]

    def _said_at_start(self, job: Job, node: str) -> list[Event]:
        """Return what a node says when it is told to start a job."""
        part = {"rank": 0, "addresses": ["127.0.0.1"], "slots": [1], "port": 1, "gpus": []}
        setup = (
            FullDisk()
            if node in self._full
            else OneDirectory(self._model, None if self._roots is None else self._roots / node)
        )
        with tempfile.TemporaryDirectory() as directory:
            relay = RelaySocket(directory)
            jobs = NodeJobs(
                self,
                relay,
                cast("NodeSetup", setup),
                name=node,
                address="127.0.0.1",
                runs=self._model.parent / "runs",
                environment={},
            )
            said = jobs.execute(["start", encode_job(job), part])
            relay.close()
        return [decode_event(event) for event in said]

    def _as_loss(self, event: Exited) -> Exited:
        node = self._placed.pop(event.key)
        killed = event.signal == "SIGKILL"
        return replace(event, lost=True, lost_node=f"{node} (its actor died)") if killed else event
