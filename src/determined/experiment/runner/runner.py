"""The main loop of an experiment: start trials, read reports, let the searcher decide, commit before acting."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from determined.engines.base import Event, Line, Placed, WakeupRequested
from determined.experiment.runner import completion, decisions, recovery, restored_trials
from determined.experiment.runner.cluster.awaited_slots import AwaitedSlots
from determined.experiment.runner.cluster.missing_nodes import MissingNodes
from determined.experiment.runner.progress_reporting import ProgressReporter
from determined.experiment.runner.reports import ReportReader, read_reports
from determined.experiment.runner.request_handler import RequestHandler
from determined.experiment.runner.runner_state import RunnerState
from determined.experiment.runner.slot_sharing import share
from determined.experiment.runner.trials import exit
from determined.experiment.runner.trials.start import TrialStarter
from determined.experiment.runner.trials.timeouts import Timeouts
from determined.experiment.runner.view import Observer
from determined.searchers.base import Extended
from determined.stop_request import StopRequest
from determined.store.experiment_changes import ExperimentChange
from determined.store.states import ExperimentState

# Maximum time in seconds for which the loop waits for the engine before it checks requests, health and slots.
_TICK = 0.25


class Runner:
    """Runs one experiment as long as it holds the lease."""

    def __init__(
        self,
        run: RunnerState,
        *,
        interrupted: Callable[[], StopRequest | None],
        outdated_requests: int = 0,
        extended: Extended | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._run = run
        self._extended = extended
        self._requests = RequestHandler(run, interrupted, outdated_requests)
        self._starts = TrialStarter(run, self._requests.is_stop_requested)
        self._reports = ReportReader(run)
        self._timeouts = Timeouts(run.settings, run.engine)
        self._missing_nodes = MissingNodes(run)
        self._awaited_slots = AwaitedSlots(run)
        self._progress = ProgressReporter(run, observer)

    def run(self) -> ExperimentState:
        """Run until the search is finished or a stop is requested; return the state of the experiment."""
        run = self._run
        rows = run.query(lambda store: store.trials(run.experiment.id))
        journal = run.query(lambda store: store.journal(run.experiment.id))
        run.trials = {trial.number: trial for trial in restored_trials.trials(rows, journal, run.settings.space)}
        self._begin()
        # After `_begin`, which has recorded that no process of an earlier runner is left.
        recovery.recover(run)
        with closing(self._starts):
            while not self._may_exit():
                self._pass()
        state = completion.finish(run)
        self._progress.show_last(state)
        return state

    def _pass(self) -> None:
        """Make one pass of the main loop."""
        run = self._run
        # Requests first: a stopped experiment must not start another trial.
        self._requests.handle()
        self._starts.start_waiting()
        # Not longer than until the next view is due: the start of a trial would be shown together with its end.
        for event in run.engine.events(min(_TICK, self._progress.seconds_to_next_view())):
            self._handle(event)
        # After the events: an exit, or a wake-up, may have made new reports readable.
        self._reports.read_all()
        decisions.decide(run)
        share(run)
        self._missing_nodes.check()
        self._awaited_slots.check()
        exit.enforce_time_limits(run, self._timeouts)
        self._progress.show()

    def _begin(self) -> None:
        """Set the experiment to ACTIVE, queue the trials of an earlier runner, and start or extend the search."""
        run, begun = self._run, self._run.search.begun
        active = ExperimentChange(state="ACTIVE", reason="")
        start = None if begun else run.search.start()
        # Called before anything is written: it raises if the search cannot be extended.
        extension = None if self._extended is None else run.search.report(self._extended)
        # The processes of the earlier runner have ended with it, even if rows say RUNNING: the engine guarantees it.
        queued = tuple(
            trial.requeue(paused=trial.suspended)
            for trial in run.live()
            if trial.state != ("PAUSED" if trial.suspended else "QUEUED")
        )
        if start is None and extension is None:
            run.commit(experiment=active, trials=queued)
        if start is not None:
            decisions.carry_out(run, *start, experiment=active)
        if extension is not None and self._extended is not None:
            longer = ExperimentChange(state="ACTIVE", reason="", max_trials=self._extended.max_trials)
            decisions.carry_out(run, *extension, queued, experiment=longer)

    def _handle(self, event: Event) -> None:
        """Handle an event of the engine."""
        trial = self._run.by_key.get(event.key)
        if trial is None:
            return
        if isinstance(event, Line):
            self._run.logs.keep(trial, event)
        elif isinstance(event, WakeupRequested):
            read_reports(self._run, trial)
        elif isinstance(event, Placed):
            assert trial.process is not None
            trial.process.note_directories(event.directories)
        else:
            exit.handle_exit(self._run, trial, event)

    def _may_exit(self) -> bool:
        """Return whether no process is running and the experiment is to end or pause."""
        run = self._run
        if run.by_key:
            return False
        return run.stop_request is not None or run.failure is not None or run.search.searcher.finished
