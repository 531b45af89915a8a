"""`NodeSetup`: the interface of what prepares a node for an experiment, and how the runner names its implementation."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from determined.engines.base import Interpreter, Job


class NodeSetup(Protocol):
    """Prepares a node for an experiment.

    A protocol with one implementation, `ExperimentNodeSetup`: it is in `experiment/`, which engines must not import, so
    the runner names its class.
    """

    def prepare(self, stopped: Callable[[], bool]) -> Interpreter | None:
        """Unpack the code and run the startup hook; return the interpreter for jobs, or None for that of the node.

        Raises DeterminedError with the reason if the node cannot run jobs of this experiment; its first line is shown
        in lists. Raises any exception soon after `stopped` returns True.
        """

    def place(self, job: Job) -> Job:
        """Return a job with its working directory on this node, and the variables that depend on it."""

    def output(self) -> list[tuple[float, str]]:
        """Return times and lines of what the preparation wrote; only once."""


def setup_of(settings: Mapping[str, Any], root: Path, code: bytes, environment: Mapping[str, str]) -> NodeSetup:
    """Import the NodeSetup class that the runner names as `package.module:Class`, and return an instance of it."""
    module, _, name = settings["setup"].partition(":")
    setup: NodeSetup = getattr(importlib.import_module(module), name)(settings["data"], root, code, environment)
    return setup
