"""`Supervisor`: records one rank's part of a run in a store, and receives the requests to stop it."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from determined.config.metric_values import time_of
from determined.core.supervision.attempts import Attempts, RecordedRun, StoreOutOfReach
from determined.core.supervision.checkpoint_records import CheckpointRecords
from determined.core.supervision.detached import DetachedRun
from determined.core.supervision.log_lines import LogLines
from determined.core.supervision.log_once import LogOnce
from determined.core.supervision.metric_reports import MetricReports, warn_of_shared_metric
from determined.core.supervision.reports import Metrics, RunStatus, StatusChange
from determined.core.supervision.run_end import end_of_standalone_run
from determined.core.supervision.stop_requests import StopRequests
from determined.stop_request import StopRequest
from determined.store.open import patience
from determined.store.rows import BegunAttempt, ComparedMetricRow, EndRow, MetadataRow, StatusRow
from determined.store.states import EndState
from determined.store.workers.local_worker_store import open_worker_store
from determined.store.workers.worker_store import WorkerStore
from determined.store.workers.writer import Writer

if TYPE_CHECKING:
    from determined.core.supervision.sink_feed import SinkFeed


class Supervisor:
    """Records one rank's part of a run in a store.

    A run appears in the store with its first metric, checkpoint, metadata or progress, or when training begins: a
    program that only opens a run leaves nothing behind. A rank that reports nothing never opens the store. The chief
    alone records what concerns the run as a whole: its status, checkpoints and end.
    """

    def __init__(self, run_dir: Path, run: RecordedRun, *, sinking: SinkFeed | None = None) -> None:
        self._run_dir = run_dir
        self._run = run
        self._member = run.member
        self._managed = run.managed
        self._sinking = sinking
        self._writer = Writer(
            lambda: open_worker_store(run.place),
            patience=patience(),
            written=None if sinking is None else sinking.written,
            # Ranks can only share a metric if there are several.
            check=None if run.member.size == 1 else warn_of_shared_metric,
        )
        # Calls by other threads than the writer's own.
        self._store = self._writer.queued(lambda store: store)
        self._log_once = LogOnce()
        self._attempts = Attempts(self._store, run)
        self._metrics = MetricReports(run.member.rank, self._writer, self._store, begun=self.attempt)
        self._lines = LogLines(run, self._writer, self._attempts)
        self._stop_requests = StopRequests(
            run,
            self._writer,
            self._store,
            self._attempts,
            current_attempt=self.begun_attempt,
            log_once=self._log_once,
        )
        self.checkpoints = CheckpointRecords(run, self._writer, self._store, self._attempts, begun=self.attempt)
        self._status = RunStatus()
        self._metadata: dict[str, Any] | None = None
        # The profiler reports from another thread, and an attempt must be begun only once.
        self._beginning = threading.Lock()
        self._attempt: BegunAttempt | None = None
        self._expected = False  # the next report of the chief starts an attempt
        self._refused = False  # the start of a standalone run was refused: there is no attempt whose end is recorded
        self._has_begun_it = False
        self._attempt_began = time.monotonic()

    @property
    def run_dir(self) -> Path:
        """The directory of this run."""
        return self._run_dir

    @property
    def store(self) -> WorkerStore:
        """The store of the run. A call returns after everything that this rank reported before is written."""
        return self._store

    # Metrics

    def report_metrics(self, group: str, steps_completed: int | None, metrics: Metrics) -> None:
        """Store metrics of this rank. Without a step (None) they are a sample.

        On the chief they are written in the background, and a validation at which trials are compared waits for the
        runner's decision. On other ranks the call returns when they are stored, because the chief's checkpoints do not
        wait for them.
        """
        if not self._is_begun():
            return
        self._metrics.write(group, steps_completed, metrics)
        if steps_completed is None:
            return
        if not self._member.is_chief:
            # The chief's checkpoint does not wait for reports of other ranks. So this rank's reports must be stored
            # before it continues; otherwise a restart from that checkpoint would lose them.
            self._writer.flush()
        elif group == "validation" and self._managed is not None:
            self._wait_if_due(steps_completed)

    def complete_length(self, length: float, metric: float) -> None:
        """Record that the last validation was at this length, in the searcher's unit, with this metric."""
        latest = self._metrics.latest("validation")
        if self._managed is None or latest is None:
            return
        steps, known = latest
        # The searcher's unit and metric are added to the report, so that the runner finds both in one row.
        missing = {self._managed.time_metric: length, self._managed.metric: metric}
        added = {name: value for name, value in missing.items() if name is not None and name not in known}
        if added:
            self.report_metrics("validation", steps, added)

    def find_metrics(self, group: str, steps_completed: int) -> Metrics:
        """Return the metrics that this rank reported for the group and step in this attempt."""
        return self._metrics.find(group, steps_completed)

    def best_validation(self) -> float | None:
        """Return the best searcher metric of all trials; None in a standalone run, which has no searcher metric."""
        return None if self._managed is None else self._managed.best_validation(self._store)

    def compare_by(self, metric: str, *, smaller_is_better: bool) -> None:
        """Record the validation metric by which the checkpoints of a standalone run are compared."""
        if self._member.is_chief and self._managed is None:
            self._writer.put(ComparedMetricRow(self.attempt().trial_id, metric, smaller_is_better))

    # Attempts

    def expect_attempt(self, *, checkpoint: str | None = None, steps_completed: int = 0) -> None:
        """Let the next report, or `begin_expected`, start an attempt after this step, from this checkpoint.

        With several ranks every rank calls this; ranks other than the chief join the attempt with their next report.
        Reports replace those of earlier attempts for the same steps.
        """
        with self._beginning:
            self._attempts.start_another(checkpoint, steps_completed)
            if self._member.is_chief:
                self._expected = True
            else:
                if self._has_begun_it:
                    self._write_end("completed")
                self._attempt, self._has_begun_it = None, False  # joined with the next report
                self._lines.leave()

    def begin_expected(self) -> None:
        """Start the expected attempt, unless a report has. With several ranks every rank calls this."""
        with self._beginning:
            if self._expected:
                self._begin()

    def note_recorded(self) -> None:
        """Note on every rank that the chief has recorded the attempt: a rank that does not find it cannot reach it."""
        self._lines.note_recorded()

    def withdraw_attempt(self) -> None:
        """Cancel the expected attempt, whose start was refused. A standalone run without an attempt records no end."""
        if self._managed is None:  # the runner of a search wants to know of every attempt
            self._refused = self._attempt is None
            self._expected = False

    def attempt(self) -> BegunAttempt:
        """Return the attempt to which this rank's reports belong; begin or join it first if necessary."""
        # Checked without the lock first, because every report passes here.
        if self._attempt is None or self._expected:
            with self._beginning:
                # Again under the lock: another thread may have begun the attempt meanwhile.
                if self._attempt is None or self._expected:
                    self._begin()
        assert self._attempt is not None
        return self._attempt

    def begun_attempt(self) -> BegunAttempt | None:
        """Return the attempt to which this rank's reports belong, or None if nothing is recorded yet."""
        return self._attempt

    def begin_detached(self) -> DetachedRun:
        """Begin the attempt of a detached run now, and return its trial and starting point."""
        begun = self.attempt()
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

    # Status and metadata

    def report_status(self, change: StatusChange) -> None:
        """Record changes of the status. Phase, progress and end are taken from the chief, an early exit from any rank.

        The first important change or a failure begins the attempt, so that it is recorded.
        """
        for name, value in change._asdict().items():
            if value is not None:
                # Only what is given, so that a change of the phase does not reset the progress.
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
            self.attempt()
        self._write_status()
        if change.state is not None and change.state != "running":
            self._write_end(change.state, change)

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the free-form metadata that this rank has set for the run."""
        self._metadata = metadata
        if self._attempt is not None:
            self._write_metadata()
        elif not self._is_begun():  # beginning the attempt has written it
            return
        if self._member.size > 1:
            self._writer.flush()  # other ranks may read it now

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of all ranks; if several ranks set the same name, the lowest rank's value counts."""
        attempt = self._attempt
        if attempt is None and self._member.size > 1:
            attempt = self._attempts.find()
        return {} if attempt is None else self._store.metadata(attempt.trial_id)

    # Stop requests

    def stop_requested(self) -> StopRequest | None:
        """Return the request to stop this run, or None."""
        return self._stop_requests.request

    def request_stop(self, request: StopRequest) -> None:
        """Request a stop from inside this worker, as after a signal; the first request is kept."""
        self._stop_requests.add(request)

    def listen(self) -> None:
        """Read stop requests on this rank as well. By default only the chief does, and other ranks ask the chief."""
        self._stop_requests.listen()

    def acknowledge_stop(self) -> None:
        """Record that the run stops because of a request."""
        self._status.stop_acknowledged = True
        if self._stop_requests.listens and not self._member.is_chief:
            attempt = self.attempt()
            # A separate row, because `_write_status` writes nothing on other ranks.
            self._writer.put(StatusRow(attempt.trial_id, attempt.number, stop_acknowledged=True))
        self._write_status()

    # Output and end

    def copy_output(self) -> None:
        """Store what this process prints, from now on until `close`, as the log of the run."""
        self._lines.copy()

    def end_output(self, error: BaseException | None = None) -> None:
        """Store the remaining output and an error that Python is about to print; stop copying."""
        self._lines.end(error)

    def flush(self) -> None:
        """Return when everything reported so far is durably stored."""
        self._writer.flush()

    def close(self, *, hurry: bool = False) -> None:
        """Stop copying output, write pending rows, and close the sinks even if the store fails.

        With `hurry`, wait only briefly.
        """
        if self._managed is not None:
            self._managed.close()
        self.end_output()
        # Sinks are closed even if the store fails: their services would otherwise show a run that never ends.
        try:
            self._writer.close(hurry=hurry)
        finally:
            if self._sinking is not None:
                self._sinking.close(hurry=hurry)

    def _is_begun(self) -> bool:
        """Begin the attempt if necessary; log an error and return False if this machine cannot reach the store.

        Training continues in that case: the chief's reports, which take precedence, are stored.
        """
        try:
            self.attempt()
        except StoreOutOfReach as error:
            self._log_once(logging.ERROR, str(error))
            return False
        return True

    def _begin(self) -> None:
        """Begin or join the next attempt, and write its metadata and status. The caller holds the lock."""
        again = self._attempt is not None
        if self._member.is_chief:
            self._write_end("completed")  # ends the previous attempt of this run, if there is one
        # Waits for the store, because the rows that follow need the number of the attempt.
        begun, self._has_begun_it = self._attempts.begin_or_join(self._attempt)
        if self._sinking is not None:
            self._sinking.begin(begun, self._store.attempts(begun.trial_id)[0])
        self._attempt, self._expected, self._refused = begun, False, False
        self._lines.begin(begun)
        self._attempt_began = time.monotonic()
        self._metrics.begin()
        # The first attempt keeps what was set before it began, such as the phase.
        if again:
            self._status = RunStatus()
        self._write_metadata()
        self._write_status()
        if self._member.is_chief:
            self._stop_requests.watch()

    def _wait_if_due(self, steps_completed: int) -> None:
        """After a validation: wait for the runner's decision if the trial has reached its goal."""
        latest = self._metrics.latest("validation")
        assert self._managed is not None
        assert latest is not None
        # A program that follows operations adds the searcher metric later, in `report_completed`. Waiting before that
        # would block the program, which calls it only after this returns.
        if self._status.follows_operations and self._managed.metric not in latest[1]:
            return
        time_reached = time_of(self._managed.time_metric, steps_completed, latest[1])
        self._managed.wait_if_due(
            time_reached,
            read_goal=lambda: self._stop_requests.read(self._store),
            is_stopping=lambda: self._stop_requests.request is not None,
        )

    def _report_status_of_another_rank(self, change: StatusChange) -> None:
        """Record an early exit or the end of the run, reported by a rank other than the chief.

        Phase and progress are recorded for rank 0 only; a warning says so once.
        """
        if change.early_exit is not None:
            attempt = self.attempt()
            self._writer.put(StatusRow(attempt.trial_id, attempt.number, early_exit=change.early_exit))
            # Stored before this rank exits, because nothing else waits for it.
            self._writer.flush()
        for name in ("phase", "progress"):
            if getattr(change, name) is not None:
                self._log_once(
                    logging.WARNING,
                    f"the {name} of a run is what rank 0 reports: that of rank {self._member.rank} is not recorded",
                )
        # Only a rank that began the attempt, because otherwise the chief or another rank records the end.
        if change.state is not None and change.state != "running" and self._has_begun_it:
            self._write_end(change.state, change)  # counts unless the chief records an end, too

    def _write_status(self) -> None:
        """Write the current status, if this is the chief and the run is recorded."""
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

    def _write_end(self, state: EndState, change: StatusChange | None = None) -> None:
        """Write the end of the current attempt. Of a trial of a search, its runner records what follows from it."""
        if self._attempt is None:
            return
        # The monotonic clock, because the wall clock may be set during a run.
        seconds = time.monotonic() - self._attempt_began
        attempt, rank = self._attempt, self._member.rank
        reason, exit_code = None, None
        if self._managed is None:
            acknowledged = self._status.stop_acknowledged
            state = end_of_standalone_run(state, self._stop_requests.request, acknowledged=acknowledged)
            if change is not None:
                reason, exit_code = change.reason, change.exit_code
        self._writer.put(EndRow(attempt.trial_id, attempt.number, state, time.time(), seconds, rank, reason, exit_code))
