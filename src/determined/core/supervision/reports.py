"""The reports of a worker about its run: metrics, complete checkpoints, and its status."""

from __future__ import annotations

from typing import Any, NamedTuple

from determined.store.states import AttemptState

Metrics = dict[str, Any]


class CheckpointRecord(NamedTuple):
    """A complete checkpoint to be recorded."""

    checkpoint_id: str
    steps_completed: int
    metadata: dict[str, Any]
    resources: dict[str, int]


class StatusChange(NamedTuple):
    """Changes of a run's status; None means unchanged."""

    phase: str | None = None
    progress: float | None = None
    early_exit: str | None = None
    follows_operations: bool | None = None
    state: AttemptState | None = None
    reason: str | None = None  # why the run ended; recorded for standalone runs, like the exit code
    exit_code: int | None = None


class RunStatus:
    """The current status of a run."""

    phase: str = ""
    progress: float | None = None
    early_exit: str | None = None
    follows_operations: bool = False
    state: str = "running"
    reason: str | None = None
    exit_code: int | None = None
    stop_acknowledged: bool = False
