"""A worker's line upwards: whom it tells what happens, and who may ask it to stop."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from determined.config.masking import mask_arguments, mask_secrets

logger = logging.getLogger("determined.core")

Metrics = dict[str, Any]

StopReason = Literal["pause", "cancel", "stop", "reschedule"]


@dataclass(frozen=True)
class StopRequest:
    """Somebody wants this run to end soon."""

    reason: StopReason


@dataclass(frozen=True)
class CheckpointRecord:
    """A finished checkpoint, as it is announced."""

    storage_id: str
    steps_completed: int
    metadata: dict[str, Any]
    resources: dict[str, int]


@dataclass(frozen=True)
class StatusChange:
    """What is new about a run; None means unchanged."""

    phase: str | None = None
    progress: float | None = None
    metadata: dict[str, Any] | None = None
    early_exit: str | None = None
    state: Literal["running", "completed", "stopped", "failed"] | None = None


@dataclass
class RunStatus:
    """All that is known about a run now."""

    phase: str = ""
    progress: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    early_exit: str | None = None
    state: str = "running"
    stop_acknowledged: bool = False


class Supervisor(Protocol):
    """What a worker may tell, and ask, whoever runs it."""

    @property
    def run_dir(self) -> Path:
        """The directory of this run."""
        ...

    def report_metrics(self, group: str, steps_completed: int | None, metrics: Metrics) -> None: ...

    def find_metrics(self, group: str, steps_completed: int) -> Metrics:
        """What this run reported for that group and step so far."""
        ...

    def begin_attempt(self) -> None:
        """What is reported from now on replaces what an earlier attempt reported for the same steps."""
        ...

    def report_checkpoint(self, checkpoint: CheckpointRecord) -> None: ...

    def report_status(self, change: StatusChange) -> None: ...

    def status(self) -> RunStatus: ...

    def best_validation(self) -> float | None: ...

    def stop_requested(self) -> StopRequest | None: ...

    def request_stop(self, reason: StopReason) -> None:
        """This worker itself was asked to stop, as by a signal; the first reason stays."""
        ...

    def acknowledge_stop(self) -> None: ...

    def close(self) -> None: ...


class LocalSupervisor:
    """Keeps the records of a run in its directory; of several ranks only the chief writes."""

    def __init__(self, run_dir: Path, *, writes: bool) -> None:
        self._run_dir = run_dir
        self._writes = writes
        self._warned = False
        self._status = RunStatus()
        self._stop: StopRequest | None = None
        self._writing = threading.Lock()  # the profiler reports from a thread of its own
        self._latest: dict[str, tuple[int, Metrics]] = {}
        self._attempt = 0
        self._metrics_file = _open_private(run_dir / "metrics.jsonl") if writes else None

    @property
    def run_dir(self) -> Path:
        return self._run_dir

    def describe(self, hparams: dict[str, Any] | None, config: dict[str, Any] | None) -> None:
        """Write down who runs what, secrets hidden."""
        if not self._writes:
            return
        description = {
            "started": time.time(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "directory": os.getcwd(),
            "argv": mask_arguments(sys.argv),
            "hparams": mask_secrets(hparams),
            "config": mask_secrets(config),
        }
        _replace_json(self._run_dir / "run.json", description)
        _replace_json(self._run_dir / "status.json", asdict(self._status))

    def report_metrics(self, group: str, steps_completed: int | None, metrics: Metrics) -> None:
        if self._metrics_file is None:
            self._warn_once()
            return
        row = {
            "group": group,
            "steps_completed": steps_completed,
            "metrics": metrics,
            "attempt": self._attempt,
            "time": time.time(),
        }
        with self._writing:
            self._metrics_file.write(json.dumps(row) + "\n")
            self._metrics_file.flush()
            if steps_completed is not None:
                self._remember(group, steps_completed, metrics)

    def find_metrics(self, group: str, steps_completed: int) -> Metrics:
        latest = self._latest.get(group)
        if latest is None or steps_completed > latest[0]:
            return {}
        if steps_completed == latest[0]:
            return latest[1]
        # Steps grow as a rule: an earlier one is looked up in the file instead of being kept in memory.
        found: Metrics = {}
        with open(self._run_dir / "metrics.jsonl") as file:
            for line in file:
                row = json.loads(line)
                mine = row["attempt"] == self._attempt and row["group"] == group
                if mine and row["steps_completed"] == steps_completed:
                    found.update(row["metrics"])
        return found

    def begin_attempt(self) -> None:
        self._attempt += 1
        self._latest.clear()

    def report_checkpoint(self, checkpoint: CheckpointRecord) -> None:
        if not self._writes:
            return
        with _open_private(self._run_dir / "checkpoints.jsonl") as file:
            file.write(json.dumps({**asdict(checkpoint), "time": time.time()}) + "\n")

    def report_status(self, change: StatusChange) -> None:
        for name, value in vars(change).items():
            if value is not None:
                setattr(self._status, name, value)
        self._write_status()

    def status(self) -> RunStatus:
        return self._status

    def best_validation(self) -> float | None:
        return None  # a run by hand has no searcher metric to compare by

    def request_stop(self, reason: StopReason) -> None:
        self._stop = self._stop or StopRequest(reason)

    def stop_requested(self) -> StopRequest | None:
        return self._stop

    def acknowledge_stop(self) -> None:
        self._status.stop_acknowledged = True
        self._write_status()

    def close(self) -> None:
        if self._metrics_file is not None:
            self._metrics_file.close()

    def _remember(self, group: str, steps_completed: int, metrics: Metrics) -> None:
        latest = self._latest.get(group)
        if latest is None or steps_completed > latest[0]:
            self._latest[group] = (steps_completed, dict(metrics))
        elif steps_completed == latest[0]:
            latest[1].update(metrics)

    def _write_status(self) -> None:
        if self._writes:
            with self._writing:
                _replace_json(self._run_dir / "status.json", asdict(self._status))

    def _warn_once(self) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("metrics reported by a rank other than the chief are not kept: report on rank 0")


def _open_private(path: Path) -> Any:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    return open(descriptor, "a", encoding="utf-8")


def _replace_json(path: Path, value: Any) -> None:
    """Write a file that readers see either old or new, never half."""
    draft = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        json.dump(value, file, indent=2, default=repr)
    os.replace(draft, path)
