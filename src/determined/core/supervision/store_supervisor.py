"""The supervisor that records a run in a store."""

from __future__ import annotations

import itertools
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from determined.config.metric_values import time_of
from determined.core.output_capture.output_copy import OutputCopy
from determined.core.output_capture.output_limit import PrintedLine
from determined.core.supervision.attempts import Attempts, Member, StoreOutOfReach
from determined.core.supervision.base import CheckpointRecord, Metrics, RunStatus, StatusChange
from determined.core.supervision.detached import DetachedRun
from determined.core.supervision.managed import Managed
from determined.core.supervision.run_identity import NAME_VARIABLE, shown_identity
from determined.stop_request import StopRequest
from determined.store.local_worker_store import open_worker_store
from determined.store.open import patience
from determined.store.process import is_running, this_process
from determined.store.records import Checkpoint, is_to_be_removed
from determined.store.rows import (
    BegunAttempt,
    CheckpointRow,
    ComparedMetricRow,
    EndRow,
    LogRow,
    MetadataRow,
    MetricRow,
    NewRun,
    PublishingRow,
    Row,
    StatusRow,
)
from determined.store.states import AttemptState
from determined.store.worker_store import WorkerStore
from determined.store.writer import Writer

if TYPE_CHECKING:
    from determined.core.supervision.sink_feed import SinkFeed

logger = logging.getLogger("determined.core")

_SECONDS_BETWEEN_TRIES = 1.0  # between attempts to find the run whose stop requests a rank wants to read


class StoreSupervisor:
    """Records one rank's part of a run in a store.

    A run appears in the store with its first metric, checkpoint, metadata or progress, or when training begins: a
    program that only opens a run leaves nothing behind. A rank that reports nothing never opens the store. The chief
    alone records what concerns the run as a whole: its status, checkpoints and end.
    """

    def __init__(
        self,
        run_dir: Path,
        run: NewRun,
        member: Member,
        *,
        place: str,
        storage: str,
        managed: Managed | None = None,
        sinking: SinkFeed | None = None,
        named: bool = False,
    ) -> None:
        self._run_dir = run_dir
        self._named = named
        self._sinking = sinking
        self._managed = managed
        self._run = run
        self._member = member
        self._writer = Writer(
            lambda: open_worker_store(place),
            patience=patience(),
            written=None if sinking is None else sinking.written,
            check=None if member.size == 1 else self._check_names,
        )
        # Calls by other threads than the writer's own.
        self._store = self._writer.queued(lambda store: store)
        self._attempts = Attempts(self._store, place, run, member, managed)
        self._storage = storage
        self._warned: set[str] = set()
        self._status = RunStatus()
        self._metadata: dict[str, Any] | None = None
        self._stop: StopRequest | None = None
        self._listens = member.is_chief
        self._next_try_to_listen = 0.0
        self._heard_of: BegunAttempt | None = None  # the attempt whose requests a rank reads without having reported
        # The profiler reports from another thread, and an attempt must be begun only once.
        self._beginning = threading.Lock()
        self._attempt: BegunAttempt | None = None
        self._expected = False  # the next report of the chief starts an attempt
        self._is_recorded = False  # of another rank than the chief: the chief has recorded the attempt
        self._refused = False  # the start of a standalone run was refused: there is no attempt whose end is recorded
        self._has_begun_it = False
        self._origin: tuple[BegunAttempt, dict[str, Any]] | None = None
        self._attempt_began = time.monotonic()
        self._reports = itertools.count()
        self._latest: dict[str, tuple[int, Metrics]] = {}
        self._output: OutputCopy | None = None
        # (trial, attempt) that log lines belong to, and their numbers
        self._log: tuple[tuple[int, int], Iterator[int]] | None = None
        self._mask: Callable[[str], str] | None = None  # created with the first stored line

    @property
    def run_dir(self) -> Path:
        return self._run_dir

    def report_metrics(self, group: str, steps_completed: int | None, metrics: Metrics) -> None:
        """Write a row of metrics; see `Supervisor.report_metrics` for which calls wait."""
        if not self._is_begun():
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
            self._member.rank,
        )
        self._writer.put(row)
        if steps_completed is None:
            return
        self._remember(group, steps_completed, metrics)
        if not self._member.is_chief:
            # The chief's checkpoint does not wait for reports of other ranks. So this rank's reports must be stored
            # before it continues; otherwise a restart from that checkpoint would lose them.
            self._writer.flush()
        elif group == "validation" and self._managed is not None and not self._is_completed_later():
            self._managed.wait_if_due(
                self._store,
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
        """Return earlier metrics of this attempt, from memory for the newest step, else from the store."""
        latest = self._latest.get(group)
        if latest is None or steps_completed > latest[0]:
            return {}
        if steps_completed == latest[0]:
            return latest[1]
        # Steps usually grow: an earlier one is looked up in the store rather than kept in memory.
        attempt, rank = self._begun(), self._member.rank
        found = self._store.find_metric(attempt.trial_id, group, steps_completed, rank)
        return found.metrics if found is not None and found.attempt == attempt.number else {}

    def begin_attempt(self, *, checkpoint: str | None = None, steps_completed: int = 0) -> None:
        """Begin the next attempt; ranks other than the chief join it with their next report."""
        self.expect_attempt(checkpoint=checkpoint, steps_completed=steps_completed)
        self.begin_expected()

    def expect_attempt(self, *, checkpoint: str | None = None, steps_completed: int = 0) -> None:
        """Let the next report or `begin_expected` begin the next attempt."""
        with self._beginning:
            self._attempts.start_another(checkpoint, steps_completed)
            if self._member.is_chief:
                self._expected = True
            else:
                if self._has_begun_it:
                    self._write_end("completed")
                self._attempt, self._has_begun_it = None, False  # joined with the next report
                self._log = None

    def begin_expected(self) -> None:
        with self._beginning:
            if self._expected:
                self._begin()

    def note_recorded(self) -> None:
        self._is_recorded = not self._member.is_chief

    def withdraw_attempt(self) -> None:
        if self._managed is None:  # the runner of a search wants to know of every attempt
            self._refused = self._attempt is None
            self._expected = False

    def compare_by(self, metric: str, *, smaller_is_better: bool) -> None:
        if self._member.is_chief and self._managed is None:
            self._writer.put(ComparedMetricRow(self._begun().trial_id, metric, smaller_is_better))

    def copy_output(self) -> None:
        """Store what this process prints, from now on until `close`."""
        self._output = OutputCopy(self._store_lines)
        self._output.start()

    def end_output(self, error: BaseException | None = None) -> None:
        """Store the remaining output and an error that Python is about to print; stop copying."""
        if self._output is not None:
            self.note_recorded()  # if no attempt is found now, there is none to wait for
            self._output.stop(error)

    def _store_lines(self, lines: list[PrintedLine]) -> bool:
        """Store printed lines; return False while the run is not in the store. Called by the output thread."""
        if self._log is None and not self._member.is_chief:
            begun = self._attempts.find()
            if begun is not None:
                self._take_lines_of(begun)
        if self._log is None:
            if self._is_recorded:
                self._refuse_lines_out_of_reach()
            return False
        if self._mask is None:
            # Imported on use: not needed by programs that print nothing.
            from determined.config.secrets.line_mask import line_mask

            self._mask = line_mask(os.environ, self._run.config)
        (trial_id, attempt), numbers = self._log
        for line in lines:
            text = self._mask(line.text)
            number, rank = next(numbers), self._member.rank
            self._writer.put(LogRow(trial_id, attempt, rank, number, line.stream, text, line.written, line.level))
        return True

    def _refuse_lines_out_of_reach(self) -> None:
        """Raise StoreOutOfReach if lines of this rank would wait for ever, because the store is on another machine."""
        try:
            self._attempts.check_reach()
        except StoreOutOfReach as error:
            where = "what it prints is only where its standard output and error go"
            raise StoreOutOfReach(f"{error}; until then {where}") from None

    def _take_lines_of(self, begun: BegunAttempt) -> None:
        """Assign log lines to this attempt from now on, numbered from 0."""
        attempt = (begun.trial_id, begun.number)
        if self._log is None or self._log[0] != attempt:
            self._log = attempt, itertools.count()

    def attempt(self) -> BegunAttempt:
        return self._begun()

    def begun_attempt(self) -> BegunAttempt | None:
        return self._attempt

    @property
    def store(self) -> WorkerStore:
        return self._store

    def checkpoint_origin(self) -> dict[str, Any]:
        attempt = self._begun()
        if self._origin is None or self._origin[0] != attempt:
            found = self._store.checkpoint_origin(attempt.trial_id, attempt.number)
            self._origin = attempt, found.plain()
        return self._origin[1]

    def publish_checkpoint(self, storage_id: str) -> None:
        attempt = self._begun()
        row = PublishingRow(storage_id, attempt.trial_id, attempt.number, self._storage, time.time())
        self._writer.put(row)
        # Flushed, because a run that resumes from this checkpoint does not report earlier steps again.
        self._writer.flush()

    def report_checkpoint(self, checkpoint: CheckpointRecord) -> None:
        """Write the row of a checkpoint and wait until it is stored."""
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
        if not self._member.is_chief:
            return []
        attempt = self._begun()
        known = self._store.checkpoints(attempt.trial_id)
        return [checkpoint for checkpoint in known if checkpoint.state == "ACTIVE"]

    def checkpoints_in_use(self) -> set[str]:
        if not self._member.is_chief:
            return set()
        attempt = self._begun()
        registered = set(self._store.registered_checkpoints(attempt.experiment_id))
        return registered | (set() if self._managed is None else self._managed.checkpoints_in_use(self._store))

    def checkpoints_of_the_last_run(self) -> list[str]:
        """Return the checkpoints of this program's last run that is not running now; see `run_identity`.

        In a trial of a search these are the trial's own checkpoints. Raises ValueError if the program has no identity.
        """
        if not self._member.is_chief:
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

        # Earlier versions recorded only the path of the program and no name.
        known = self._store.latest_checkpoints(identity, None if self._named else program)
        for trial_id in dict.fromkeys(checkpoint.trial_id for checkpoint in known):
            newest = self._store.attempts(trial_id)[-1]
            at_work = newest.state == "running" and is_running(newest.process)
            if not at_work or newest.process == this_process():
                return [checkpoint.uuid for checkpoint in known if checkpoint.trial_id == trial_id]
        others = [] if known or self._named else self._store.identities(program)
        if others:
            logger.warning(
                "latest_checkpoint='latest': the checkpoints of this program were saved under another user or host "
                "(%s) and are not used. To share them, set %s to the same name in every run",
                ", ".join(shown_identity(other) for other in others[:3]),
                NAME_VARIABLE,
            )
        return []

    def begin_detached(self) -> DetachedRun:
        """Begin the attempt of a detached run now, and return its trial and starting point."""
        begun = self._begun()
        trial, attempts = self._store.trial(begun.trial_id), self._store.attempts(begun.trial_id)
        return DetachedRun(
            begun.experiment_id,
            begun.trial_id,
            begun.number,
            trial.hparams,
            trial.seed,
            trial.latest_checkpoint,
            attempts[-1].start_step,
        )

    def report_use(self, checkpoint: str, version: tuple[int, int] | None = None) -> None:
        if self._member.is_chief:
            attempt = self._begun()
            self._store.record_use(attempt.trial_id, checkpoint, version)

    def condemn_checkpoints(self, storage_ids: Sequence[str]) -> list[str]:
        if not self._member.is_chief:
            return []
        attempt = self._begun()
        condemned = self._store.condemn_unused(storage_ids)
        interrupted = [row.uuid for row in self._store.checkpoints(attempt.trial_id) if is_to_be_removed(row)]
        return list(dict.fromkeys([*condemned, *interrupted]))

    def condemn_own_checkpoint(self, storage_id: str) -> None:
        if not self._member.is_chief:
            self._attempts.check_reach()
        self._store.condemn_own(storage_id)

    def checkpoint_deleted(self, storage_id: str) -> None:
        self._store.set_checkpoint_deleted(storage_id)

    def report_status(self, change: StatusChange) -> None:
        """Write the status; the first important change or a failure begins the attempt, so that it is recorded."""
        for name, value in change._asdict().items():
            if value is not None:
                setattr(self._status, name, value)
        ended = change.state not in (None, "running")
        if ended and self._writer.failed:
            return  # the writer has failed; close() raises its error
        if not self._member.is_chief:
            self._report_status_of_another_rank(change)
            return
        ended_badly = change.state in ("stopped", "failed") and not self._refused
        told = (change.progress, change.early_exit, change.follows_operations)
        if ended_badly or any(value is not None for value in told):
            self._begun()
        self._write_status()
        if change.state not in (None, "running"):
            self._write_end(change.state, change)

    def _report_status_of_another_rank(self, change: StatusChange) -> None:
        """Record an early exit or the end of the run, reported by a rank other than the chief.

        Phase and progress are recorded for rank 0 only; a warning says so once.
        """
        if change.early_exit is not None:
            attempt = self._begun()
            self._writer.put(StatusRow(attempt.trial_id, attempt.number, early_exit=change.early_exit))
            self._writer.flush()
        for name in ("phase", "progress"):
            if getattr(change, name) is not None:
                self._say_once(
                    logging.WARNING,
                    f"the {name} of a run is what rank 0 reports: that of rank {self._member.rank} is not recorded",
                )
        if change.state not in (None, "running") and self._has_begun_it:
            self._write_end(change.state, change)  # counts unless the chief records an end, too

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        self._metadata = metadata
        if self._attempt is not None:
            self._write_metadata()
        elif not self._is_begun():  # beginning the attempt has written it
            return
        if self._member.size > 1:
            self._writer.flush()  # other ranks may read it now

    def metadata(self) -> dict[str, Any]:
        attempt = self._attempt
        if attempt is None and self._member.size > 1:
            attempt = self._attempts.find()
        if attempt is None:
            return {}
        return self._store.metadata(attempt.trial_id)

    def status(self) -> RunStatus:
        return self._status

    def best_validation(self) -> float | None:
        if self._managed is None:
            return None  # a standalone run has no searcher metric
        return self._managed.best_validation(self._store)

    def request_stop(self, request: StopRequest) -> None:
        self._stop = self._stop or request

    def stop_requested(self) -> StopRequest | None:
        return self._stop

    def listen(self) -> None:
        """Read stop requests on a rank other than the chief; retry later if the attempt has not begun."""
        if self._listens or time.monotonic() < self._next_try_to_listen:
            return
        self._heard_of = self._attempts.find()
        if self._heard_of is None:  # no rank has begun the attempt yet, or the store is on another machine
            self._next_try_to_listen = time.monotonic() + _SECONDS_BETWEEN_TRIES
            try:
                self._attempts.check_reach()
            except StoreOutOfReach as error:
                self._say_once(logging.WARNING, f"requests to stop do not reach this rank: {error}")
            return
        self._listens = True
        self._watch(self._store)
        self._writer.watch(self._watch)

    def acknowledge_stop(self) -> None:
        self._status.stop_acknowledged = True
        if self._listens and not self._member.is_chief:
            attempt = self._begun()
            self._writer.put(StatusRow(attempt.trial_id, attempt.number, stop_acknowledged=True))
        self._write_status()

    def flush(self) -> None:
        self._writer.flush()

    def close(self, *, hurry: bool = False) -> None:
        """Stop copying output, write pending rows, and close the sinks even if the store fails."""
        if self._managed is not None:
            self._managed.close()
        self.end_output()
        try:
            self._writer.close(hurry=hurry)
        finally:
            if self._sinking is not None:
                self._sinking.close(hurry=hurry)

    def _begun(self) -> BegunAttempt:
        """Return the current attempt; begin or join it first if necessary."""
        if self._attempt is None or self._expected:
            with self._beginning:
                if self._attempt is None or self._expected:
                    self._begin()
        assert self._attempt is not None
        return self._attempt

    def _is_begun(self) -> bool:
        """Begin the attempt if necessary; log an error and return False if this machine cannot reach the store.

        Training continues in that case: the chief's reports, which take precedence, are stored.
        """
        try:
            self._begun()
        except StoreOutOfReach as error:
            self._say_once(logging.ERROR, str(error))
            return False
        return True

    def _begin(self) -> None:
        """Begin or join the next attempt, and write its metadata and status."""
        again = self._attempt is not None
        if self._member.is_chief:
            self._write_end("completed")  # ends the previous attempt of this run, if there is one
        begun, self._has_begun_it = self._attempts.begin_or_join(self._attempt)
        if self._sinking is not None:
            self._sinking.begin(begun, self._store.attempts(begun.trial_id)[0])
        self._attempt, self._expected, self._refused = begun, False, False
        self._take_lines_of(begun)
        if self._output is not None:
            self._output.run_has_begun()
        self._attempt_began = time.monotonic()
        self._reports = itertools.count()
        self._latest.clear()
        if again:
            self._status = RunStatus()
        self._write_metadata()
        self._write_status()
        if self._member.is_chief:
            self._writer.watch(self._watch)

    def _watch(self, store: WorkerStore) -> None:
        """Check that the trial still belongs to this process, and read stop requests. Called by the writer's thread."""
        if self._managed is not None:
            self._managed.check_is_ours(store)
        self._look_for_requests(store)

    def _look_for_requests(self, store: WorkerStore) -> bool:
        """Read new stop requests; return whether a stop is requested."""
        attempt = self._attempt or self._heard_of
        if attempt is not None and self._stop is None:
            for request in store.requests(attempt.trial_id, attempt.last_request):
                # Killing is up to the runner; the worker itself handles the request like a cancel.
                self.request_stop("cancel" if request.kind == "kill" else request.kind)
        return self._stop is not None

    def _is_completed_later(self) -> bool:
        """Return whether the newest validation lacks the searcher metric, which `report_completed` will add."""
        metric = None if self._managed is None else self._managed.metric
        return self._status.follows_operations and metric not in self._latest["validation"][1]

    def _remember(self, group: str, steps_completed: int, metrics: Metrics) -> None:
        """Keep the newest metrics of a group in memory."""
        latest = self._latest.get(group)
        if latest is None or steps_completed > latest[0]:
            self._latest[group] = (steps_completed, dict(metrics))
        elif steps_completed == latest[0]:
            latest[1].update(metrics)

    def _write_status(self) -> None:
        if not self._member.is_chief or self._attempt is None:
            return
        status = self._status
        self._writer.put(
            StatusRow(
                self._attempt.trial_id,
                self._attempt.number,
                status.phase,
                status.progress,
                status.early_exit,
                status.stop_acknowledged,
                status.follows_operations,
            )
        )

    def _write_metadata(self) -> None:
        """Write the metadata if this run has set some; otherwise a resumed trial keeps its earlier metadata."""
        if self._metadata is not None and self._attempt is not None:
            attempt = self._attempt
            self._writer.put(MetadataRow(attempt.trial_id, attempt.number, self._metadata, self._member.rank))

    def _write_end(self, state: AttemptState, change: StatusChange | None = None) -> None:
        """Write the end of the current attempt."""
        if self._attempt is None:
            return
        seconds = time.monotonic() - self._attempt_began
        attempt, rank = self._attempt, self._member.rank
        state, reason, exit_code = self._recorded_end(state), None, None
        if change is not None and self._managed is None:
            reason, exit_code = change.reason, change.exit_code
        self._writer.put(EndRow(attempt.trial_id, attempt.number, state, time.time(), seconds, rank, reason, exit_code))

    def _recorded_end(self, state: AttemptState) -> AttemptState:
        """Return how an attempt of a standalone run ended, where a request ended it.

        `fit` returns then and the program ends well, but the run has not completed. What a trial of a search does after
        a request, its runner records.
        """
        request = None if self._managed is not None else self._stop
        if state == "completed" and self._status.stop_acknowledged:
            ends: dict[StopRequest | None, AttemptState] = {
                "pause": "stopped",
                "reschedule": "stopped",
                "cancel": "canceled",
            }
            return ends.get(request, state)
        return "canceled" if state == "stopped" and request == "cancel" else state

    def _check_names(self, store: WorkerStore, rows: list[Row]) -> None:
        """Warn once per attempt if two ranks report the same metric. Called by the writer's thread."""
        reports = [row for row in rows if isinstance(row, MetricRow)]
        found = store.claim_shared_metric(reports) if reports else None
        if found is not None:
            logger.warning(
                "rank %d reported the metric %r of group %r for step %d, and so did rank %d: the value of the "
                "lowest rank counts; other metrics may be concerned as well: report on one rank, or under names of "
                "their own",
                found.rank,
                found.name,
                found.group,
                found.steps_completed,
                found.lower_rank,
            )

    def _say_once(self, level: int, message: str) -> None:
        """Log a message unless the same message was logged before."""
        if message not in self._warned:
            self._warned.add(message)
            logger.log(level, "%s", message)
