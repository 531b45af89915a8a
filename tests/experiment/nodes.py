"""An engine that runs trials here and reports nodes as the engine of a cluster does; its nodes can fail."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from determined.engines.base import Event, Exited, Job
from determined.engines.local import LocalEngine
from determined.engines.ray.node.jobs import NodeJobs
from determined.engines.ray.node.setup import NodeSetup
from determined.engines.ray.plain import decode_event, encode_job
from determined.engines.relay_socket import RelaySocket
from determined.errors import EngineError
from determined.store.open import checked_place


class FullDisk:
    """The setup of a node whose disk is full."""

    def place(self, job: Job) -> Job:
        raise EngineError("no space left on device")


class Nodes(LocalEngine):
    """An engine that starts each job on the next of the nodes, and then always on the last one.

    A job cannot be started on the nodes in `full`. A job that is killed by SIGKILL is reported as lost with its node.
    """

    def __init__(self, model: Path, nodes: Sequence[str], full: Sequence[str] = ()) -> None:
        super().__init__(1)
        self._model, self._nodes, self._full = model, list(nodes), full
        self._placed: dict[str, str] = {}
        self._failed: list[Event] = []

    @property
    def spans_machines(self) -> bool:
        return True

    def where(self, key: str) -> list[str]:
        return [self._placed[key]] if key in self._placed else []

    def start(self, job: Job) -> list[int]:
        self._placed[job.key] = node = self._nodes[0]
        self._nodes = self._nodes[1:] or self._nodes
        if node in self._full:
            self._failed += self._failed_start(job)
            return [0]
        environment = {**job.environment, "DET_STORE": checked_place()}
        return super().start(replace(job, environment=environment, directory=self._model))

    def events(self, timeout: float) -> list[Event]:
        found = [*self._failed, *super().events(0.0 if self._failed else timeout)]
        self._failed = []
        return [self._as_loss(event) if isinstance(event, Exited) else event for event in found]

    def _failed_start(self, job: Job) -> list[Event]:
        """Return the reason of a node that cannot start a job."""
        part = {"rank": 0, "addresses": ["127.0.0.1"], "slots": [1], "port": 1, "gpus": []}
        with tempfile.TemporaryDirectory() as directory:
            relay = RelaySocket(directory)
            node = NodeJobs(self, relay, cast("NodeSetup", FullDisk()), "127.0.0.1", Path(directory))
            said = node.execute(["start", encode_job(job), part])
            relay.close()
        return [decode_event(event) for event in said]

    def _as_loss(self, event: Exited) -> Exited:
        node = self._placed.pop(event.key)
        killed = event.signal == "SIGKILL"
        return replace(event, lost=True, lost_node=f"{node} (its actor died)") if killed else event
