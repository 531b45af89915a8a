"""The supervisor that keeps the records of a run in a store."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from determined.config.masking import mask_arguments, mask_secrets
from determined.config.measures import time_of
from determined.core.detached import Detached, DetachedRun
from determined.core.managed import Managed
from determined.core.run_identity import NAME_VARIABLE, run_identity, shown_identity
from determined.core.supervisor import CheckpointRecord, Metrics, RunStatus, StatusChange, StopReason, StopRequest
from determined.program import this_program
from determined.store.base import Store
from determined.store.open import checked_place, open_store, patience
from determined.store.process import is_running, this_process
from determined.store.records import (
    AttemptStart,
    AttemptState,
    BegunAttempt,
    Checkpoint,
    CheckpointRow,
    EndRow,
    MetricRow,
    NewRun,
    StatusRow,
    is_to_be_removed,
)
from determined.store.writer import Writer

if TYPE_CHECKING:
    from determined.core.sinking import Sinking
    from determined.sinks.base import Sink

logger = logging.getLogger("determined.core")

T = TypeVar("T")


class StoreSupervisor:
    """Keeps the records of a run in a store; of several ranks only the chief has one.

    A run appears in the store with its first metric, checkpoint or progress, or when training begins: what only looks
    around leaves nothing behind.
    """

    def __init__(
        self,
        run_dir: Path,
        run: NewRun,
        writer: Writer | None,
        *,
        storage: str,
        managed: Managed | None = None,
        sinking: Sinking | None = None,
        named: bool = False,
    ) -> None:
        self._run_dir = run_dir
        self._named = named
        self._sinking = sinking
        self._managed = managed
        self._run = run
        self._writer = writer
        self._storage = storage
        self._warned = False
        self._status = RunStatus()
        self._stop: StopRequest | None = None
        self._beginning = threading.Lock()  # the profiler reports from a thread of its own
        self._attempt: BegunAttempt | None = None
        self._attempt_began = time.monotonic()
        self._reports = itertools.count()
        self._latest: dict[str, tuple[int, Metrics]] = {}

    @property
    def run_dir(self) -> Path:
        return self._run_dir

    def report_metrics(self, group: str, steps_completed: int | None, metrics: Metrics) -> None:
        if self._writer is None:
            self._warn_once()
            return
        attempt = self._begun()
        row = MetricRow(
            attempt.trial_id,
            attempt.number,
            next(self._reports),
            group,
            steps_completed,
            json.dumps(metrics),
            time.time(),
        )
        self._writer.put(row)
        if steps_completed is None:
            return
        self._remember(group, steps_completed, metrics)
        if group == "validation" and self._managed is not None and not self._is_completed_later():
            self._managed.wait_if_due(
                self._writer,
                time_of(self._managed.time_metric, steps_completed, self._latest[group][1]),
                self._look_for_requests,
            )

    def complete_length(self, length: float, metric: float) -> None:
        if self._managed is None or "validation" not in self._latest:
            return
        steps, known = self._latest["validation"]
        missing = {self._managed.time_metric: length, self._managed.metric: metric}
        added = {name: value for name, value in missing.items() if name is not None and name not in known}
        if added:
            self.report_metrics("validation", steps, added)

    def find_metrics(self, group: str, steps_completed: int) -> Metrics:
        latest = self._latest.get(group)
        if latest is None or steps_completed > latest[0]:
            return {}
        if steps_completed == latest[0]:
            return latest[1]
        # Steps grow as a rule: an earlier one is looked up in the store instead of being kept in memory.
        assert self._writer is not None
        attempt = self._begun()
        found = self._writer.ask(lambda store: store.find_metric(attempt.trial_id, group, steps_completed))
        return found.metrics if found is not None and found.attempt == attempt.number else {}

    def begin_attempt(self, *, checkpoint: str | None = None, steps_completed: int = 0) -> None:
        with self._beginning:
            self._begin(checkpoint, steps_completed)

    def attempt(self) -> BegunAttempt:
        return self._begun()

    def ask(self, question: Callable[[Store], T]) -> T:
        assert self._writer is not None, "only the chief asks its supervisor's store"
        return self._writer.ask(question)

    def report_checkpoint(self, checkpoint: CheckpointRecord) -> None:
        if self._writer is None:
            return
        attempt = self._begun()
        self._writer.put(
            CheckpointRow(
                checkpoint.storage_id,
                attempt.trial_id,
                attempt.number,
                checkpoint.steps_completed,
                checkpoint.metadata,
                checkpoint.resources,
                self._storage,
                time.time(),
            )
        )
        self._writer.flush()

    def checkpoints(self) -> list[Checkpoint]:
        if self._writer is None:
            return []
        attempt = self._begun()
        known = self._writer.ask(lambda store: store.checkpoints(attempt.trial_id))
        return [checkpoint for checkpoint in known if checkpoint.state == "ACTIVE"]

    def checkpoints_in_use(self) -> set[str]:
        if self._writer is None:
            return set()
        attempt = self._begun()
        registered = self._writer.ask(lambda store: store.registry.registered(attempt.experiment_id))
        return registered | (set() if self._managed is None else self._managed.checkpoints_in_use(self._writer))

    def checkpoints_of_the_last_run(self) -> list[str]:
        if self._writer is None:
            return []

        if self._managed is not None:
            return [checkpoint.uuid for checkpoint in self.checkpoints()]

        identity, program = self._run.identity, self._run.program
        if identity is None:
            raise ValueError(
                "latest_checkpoint='latest' cannot tell which checkpoints belong to this program: it has no file of "
                f"its own ({program}). Give the run a name, for example name='my-run' in init() or "
                f"{NAME_VARIABLE}=my-run in the environment, or pass the id of a checkpoint"
            )

        def ask(store: Store) -> tuple[list[str], list[str]]:
            # Earlier versions recorded the path of the program alone; a name was not known then.
            known = store.latest_checkpoints(identity, None if self._named else program)
            for trial_id in dict.fromkeys(checkpoint.trial_id for checkpoint in known):
                newest = store.attempts(trial_id)[-1]
                at_work = newest.state == "running" and is_running(newest.process)
                if not at_work or newest.process == this_process():
                    return [checkpoint.uuid for checkpoint in known if checkpoint.trial_id == trial_id], []
            return [], [] if known or self._named else store.identities(program)

        uuids, others = self._writer.ask(ask)
        if others:
            logger.warning(
                "latest_checkpoint='latest': the checkpoints of this program were saved under another user or host "
                "(%s) and are not used. To share them, set %s to the same name in every run",
                ", ".join(shown_identity(other) for other in others[:3]),
                NAME_VARIABLE,
            )
        return uuids

    def begin_detached(self) -> DetachedRun:
        """Begin now, and say as which trial, and from where it goes on."""
        begun = self._begun()
        writer = self._writer
        assert writer is not None

        def ask(store: Store) -> DetachedRun:
            trial, attempts = store.experiments.trial(begun.trial_id), store.attempts(begun.trial_id)
            return DetachedRun(
                begun.experiment_id,
                begun.trial_id,
                begun.number,
                trial.hparams,
                trial.seed,
                trial.latest_checkpoint,
                attempts[-1].start_step,
            )

        return writer.ask(ask)

    def report_use(self, checkpoint: str, version: tuple[int, int] | None = None) -> None:
        if self._writer is not None:
            attempt = self._begun()
            self._writer.ask(lambda store: store.lineage.record_use(attempt.trial_id, checkpoint, version))

    def condemn_checkpoints(self, storage_ids: Sequence[str]) -> list[str]:
        if self._writer is None:
            return []
        attempt = self._begun()

        def ask(store: Store) -> list[str]:
            condemned = store.upkeep.condemn_unused(storage_ids)
            cut_short = [row.uuid for row in store.checkpoints(attempt.trial_id) if is_to_be_removed(row)]
            return list(dict.fromkeys([*condemned, *cut_short]))

        return self._writer.ask(ask)

    def condemn_own_checkpoint(self, storage_id: str) -> None:
        if self._writer is not None:
            self._writer.ask(lambda store: store.upkeep.condemn_own(storage_id))

    def checkpoint_deleted(self, storage_id: str) -> None:
        if self._writer is not None:
            self._writer.ask(lambda store: store.set_checkpoint_deleted(storage_id))

    def report_status(self, change: StatusChange) -> None:
        for name, value in vars(change).items():
            if value is not None:
                setattr(self._status, name, value)
        ended = change.state not in (None, "running")
        if self._writer is None or (ended and self._writer.failed):
            return  # close() raises what failed
        ended_badly = change.state in ("stopped", "failed")
        told = (change.progress, change.early_exit, change.follows_operations)
        if ended_badly or any(value is not None for value in told):
            self._begun()
        self._write_status()
        if change.state not in (None, "running"):
            self._write_end(change.state)

    def status(self) -> RunStatus:
        return self._status

    def best_validation(self) -> float | None:
        if self._writer is None or self._managed is None:
            return None  # a run by hand has no searcher metric to compare by
        return self._managed.best_validation(self._writer)

    def request_stop(self, reason: StopReason) -> None:
        self._stop = self._stop or StopRequest(reason)

    def stop_requested(self) -> StopRequest | None:
        return self._stop

    def acknowledge_stop(self) -> None:
        self._status.stop_acknowledged = True
        self._write_status()

    def flush(self) -> None:
        if self._writer is not None:
            self._writer.flush()

    def close(self, *, hurry: bool = False) -> None:
        if self._managed is not None:
            self._managed.close()
        try:
            if self._writer is not None:
                self._writer.close(hurry=hurry)
        finally:
            if self._sinking is not None:
                self._sinking.close(hurry=hurry)

    def _begun(self) -> BegunAttempt:
        if self._attempt is None:
            with self._beginning:
                if self._attempt is None:
                    # A script does not say where it goes on from: what was reported up to there stays.
                    self._begin(None, 0 if self._managed is None else self._managed.steps_completed)
        assert self._attempt is not None
        return self._attempt

    def _begin(self, checkpoint: str | None, steps_completed: int) -> None:
        if self._writer is None:
            return
        start = AttemptStart(
            key=str(uuid.uuid4()),
            run=self._run,
            process=this_process(),
            started=time.time(),
            checkpoint=checkpoint,
            steps_completed=steps_completed,
            previous=self._attempt,
        )
        if self._managed is not None:
            start = replace(start, allocation=(self._managed.trial_id, self._managed.key))
        again = self._attempt is not None
        self._write_end("completed")  # what this run did before, if it did anything
        begun = self._writer.ask(lambda store: store.begin_attempt(start))
        if self._sinking is not None:
            self._sinking.begin(begun, self._writer.ask(lambda store: store.attempts(begun.trial_id)[0]))
        self._attempt = begun
        self._attempt_began = time.monotonic()
        self._reports = itertools.count()
        self._latest.clear()
        if again:
            self._status = RunStatus(metadata=self._status.metadata)
        # A trial that goes on keeps its metadata, unless this run has set its own already.
        self._status.metadata = self._status.metadata or self._attempt.metadata
        self._write_status()
        self._writer.watch(self._watch)

    def _watch(self, store: Store) -> None:
        if self._managed is not None:
            self._managed.check_is_ours(store)
        self._look_for_requests(store)

    def _look_for_requests(self, store: Store) -> bool:
        """Whether somebody wants this run to stop."""
        attempt = self._attempt
        if attempt is not None and self._stop is None:
            for request in store.requests(attempt.trial_id, after=attempt.last_request):
                # To kill is up to whoever runs this process: it does what it can.
                self.request_stop("cancel" if request.kind == "kill" else request.kind)
        return self._stop is not None

    def _is_completed_later(self) -> bool:
        """Return whether the newest validation lacks the metric of the searcher, which `report_completed` will add."""
        metric = None if self._managed is None else self._managed.metric
        return self._status.follows_operations and metric not in self._latest["validation"][1]

    def _remember(self, group: str, steps_completed: int, metrics: Metrics) -> None:
        latest = self._latest.get(group)
        if latest is None or steps_completed > latest[0]:
            self._latest[group] = (steps_completed, dict(metrics))
        elif steps_completed == latest[0]:
            latest[1].update(metrics)

    def _write_status(self) -> None:
        if self._writer is None or self._attempt is None:
            return
        status = self._status
        self._writer.put(
            StatusRow(
                self._attempt.trial_id,
                self._attempt.number,
                status.phase,
                status.progress,
                status.metadata,
                status.early_exit,
                status.stop_acknowledged,
                status.follows_operations,
            )
        )

    def _write_end(self, state: AttemptState) -> None:
        if self._writer is not None and self._attempt is not None:
            seconds = time.monotonic() - self._attempt_began
            self._writer.put(EndRow(self._attempt.trial_id, self._attempt.number, state, time.time(), seconds))

    def _warn_once(self) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("metrics reported by a rank other than the chief are not kept: report on rank 0")


def supervise(
    run_dir: Path,
    *,
    chief: bool,
    hparams: dict[str, Any] | None,
    passed_hparams: dict[str, Any] | None = None,
    config: dict[str, Any] | None,
    storage: str,
    managed: Managed | None = None,
    seed: int = 0,
    detached: Detached | None = None,
    sinks: Sequence[Sink] = (),
    name: str | None = None,
) -> StoreSupervisor:
    """Connect the run to the store that the environment names; secrets are masked in everything that is written."""
    program = this_program()
    if name is not None:
        config = {"name": name, **(config or {})}
    run = NewRun(
        program=program.label,
        run_dir=str(run_dir),
        hparams=mask_secrets(hparams or {}),
        config=mask_secrets(config or {}),
        created=time.time(),
        seed=seed,
        passed_hparams=None if passed_hparams is None else mask_secrets(passed_hparams),
        external_experiment=None if detached is None else detached.external_experiment,
        external_trial=None if detached is None else detached.external_trial,
        identity=run_identity(program, name) if managed is None else None,
    )
    if not chief:
        return StoreSupervisor(run_dir, run, None, storage=storage)
    _write_description(run)
    place = (None if detached is None else detached.store) or checked_place()
    sinking = _sinking(sinks, run)
    written = None if sinking is None else sinking.written
    writer = Writer(lambda: open_store(place), patience=patience(), written=written)
    return StoreSupervisor(
        run_dir,
        run,
        writer,
        storage=mask_secrets(storage),
        managed=managed,
        sinking=sinking,
        named=name is not None,
    )


def _sinking(sinks: Sequence[Sink], run: NewRun) -> Sinking | None:
    if not sinks:
        return None
    from determined.core.sinking import Sinking

    return Sinking(sinks, run)


def _write_description(run: NewRun) -> None:
    """For people who find the directory of a run."""
    description = {
        "started": run.created,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "directory": os.getcwd(),
        "argv": mask_arguments(sys.argv),
        "hparams": run.hparams,
        "config": run.config,
    }
    _replace_json(Path(run.run_dir) / "run.json", description)


def _replace_json(path: Path, value: Any) -> None:
    """Write a file that readers see either old or new, never half."""
    draft = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        json.dump(value, file, indent=2, default=repr)
    os.replace(draft, path)
