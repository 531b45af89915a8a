"""The state of a trial in its runner, and all transitions between its states.

Each transition changes the trial in memory and returns the same change of its row. The caller commits it, together with
what belongs to the same decision, before it acts on the processes. No other module of the runner changes the state of a
trial or makes a `TrialChange`, so memory and database cannot differ; ARCHITECTURE.md has the table of transitions.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from determined.experiment.runner.trials.observed import Observed
from determined.experiment.runner.trials.process import TrialProcess
from determined.experiment.runner.trials.trial_values import (
    ComparisonWait,
    Decided,
    Failures,
    FinalDecision,
    RowValues,
    TrialSpec,
)
from determined.stop_request import StopRequest
from determined.store.experiment_changes import UNCHANGED, TrialChange
from determined.store.states import TRIAL_ENDED, WITH_PROCESSES, TrialState

_WAITING: tuple[TrialState, ...] = ("QUEUED", "PAUSED")
_LIVE: tuple[TrialState, ...] = (*_WAITING, *WITH_PROCESSES)


class LiveTrial:
    """A trial of a running experiment: the values of its row, and what the runner knows in addition."""

    def __init__(
        self,
        spec: TrialSpec,
        row: RowValues,
        decided: Decided | None = None,
        failures: Failures | None = None,
        observed: Observed | None = None,
    ) -> None:
        self.spec: Final = spec
        self.observed: Final = observed or Observed()
        self.wait: Final = ComparisonWait()
        self._row = row
        self._decided = decided or Decided()
        self._failures = failures or Failures()
        self._process: TrialProcess | None = None
        self._must_save_again = False
        self._seconds_before = 0.0  # duration of earlier starts
        self._started_at: float | None = None
        self._state_since: float | None = None

    # Transitions, in the order of the table in ARCHITECTURE.md.

    def start(self, process: TrialProcess) -> TrialChange:
        """Start the trial. Its processes begin after the commit, so that a crash in between only repeats the start."""
        runs, now = self.runs + 1, time.time()
        change = TrialChange(self.id, state="RUNNING", allocation=process.key, runs=runs, started=now)
        self._apply(change, after=_WAITING)
        self._started_at = time.monotonic()
        self._process, self._failures = process, replace(self._failures, restart_is_pending=False)
        return change

    def place_on(self, nodes: list[str]) -> TrialChange:
        """Record the node of each rank, once the engine has chosen them."""
        change = self._apply(TrialChange(self.id, nodes=nodes), after=WITH_PROCESSES)
        assert self._process is not None
        self._process.place_on(nodes)
        return change

    def start_failed(self) -> TrialChange:
        """Queue the trial again, because the engine could not start its processes."""
        change = self._apply(TrialChange(self.id, state="QUEUED"), after=("RUNNING",))
        self._process = None
        return change

    def request_stop(self, request: StopRequest) -> TrialChange:
        """Request that the processes stop. A later request replaces an earlier one."""
        change = self._apply(TrialChange(self.id, state="STOPPING"), after=WITH_PROCESSES)
        assert self._process is not None
        self._process.request_stop(request)
        return change

    def suspend(self) -> TrialChange:
        """Pause the trial, as the searcher decided. A request that was made to its processes before is kept."""
        state: TrialState = "STOPPING" if self.state in WITH_PROCESSES else "PAUSED"
        change = self._apply(TrialChange(self.id, state=state), after=_LIVE)
        self._decided = replace(self._decided, suspended=True)
        if self._process is not None and self._process.stopping.request is None:
            self._process.request_stop("pause")
        return change

    def stop(self, final: FinalDecision) -> TrialChange:
        """Stop the processes for good, as the searcher decided. A request that was made before is kept."""
        change = self._apply(TrialChange(self.id, state="STOPPING"), after=WITH_PROCESSES)
        assert self._process is not None
        self.decide_end(final)
        if self._process.stopping.request is None:
            self._process.request_stop("stop")
        return change

    def continue_to(self, goal: float | None) -> TrialChange:
        """Set the next goal, as the searcher decided. A trial that waits is queued; processes continue as they are."""
        state: TrialState | None = "QUEUED" if self.state in _WAITING else None
        change = self._apply(TrialChange(self.id, state=state, goal=goal), after=_LIVE)
        self._decided = replace(self._decided, suspended=False)
        self.wait.end()
        return change

    def requeue(self, *, paused: bool, restarts: int | None = None, reason: str | None = None) -> TrialChange:
        """Let the trial wait for its next start. `restarts` counts that start in advance, if it follows a failure."""
        # The exit must have been handled before the next start.
        assert self._process is None
        is_pending = self._failures.restart_is_pending or (restarts is not None and restarts > self.restarts)
        state: TrialState = "PAUSED" if paused else "QUEUED"
        change = self._apply(TrialChange(self.id, state=state, restarts=restarts, reason=reason), after=_LIVE)
        self._failures = replace(self._failures, restart_is_pending=is_pending)
        return change

    def end(self, state: TrialState, reason: str | None = None) -> TrialChange:
        """End the trial. A restart that was counted in advance and is not made any more is subtracted."""
        assert self._process is None
        assert state in TRIAL_ENDED
        # bool counts as 0 or 1.
        restarts = self.restarts - self._failures.restart_is_pending
        change = TrialChange(self.id, state=state, restarts=restarts, reason=reason, ended=time.time())
        self._apply(change, after=_LIVE)
        self._failures = replace(self._failures, restart_is_pending=False)
        self.observed.discard_result()
        return change

    def start_from(self, checkpoint_id: str | None) -> TrialChange:
        """Set the checkpoint of another trial from which this one starts; None if that trial has none."""
        change = self._apply(TrialChange(self.id, source_checkpoint_id=checkpoint_id), after=_WAITING)
        self._decided = replace(self._decided, source_number=None)
        return change

    def _apply(self, change: TrialChange, *, after: tuple[TrialState, ...]) -> TrialChange:
        """Apply a change of the row to its values in memory, and return it.

        Raise RuntimeError if the state before it is not one of `after`: such a transition is a mistake in the runner.
        """
        row = self._row
        if row.state not in after:
            raise RuntimeError(f"trial {self.id} is {row.state}: {change} is possible only after {', '.join(after)}")
        if change.state is not None and change.state != row.state:
            self._state_since = time.monotonic()
        self._row = RowValues(
            state=change.state or row.state,
            # None is a value of a goal, so an unchanged one needs a marker of its own.
            goal=row.goal if change.goal is UNCHANGED else change.goal,
            source_checkpoint_id=change.source_checkpoint_id or row.source_checkpoint_id,
            runs=row.runs if change.runs is None else change.runs,
            restarts=row.restarts if change.restarts is None else change.restarts,
        )
        return change

    # These methods change no column: their decisions are in the journal, or the next transition records the result.

    def decide_end(self, final: FinalDecision) -> None:
        """Record the searcher's final decision, whose journal entry is committed with what follows from it."""
        self._decided = replace(self._decided, final=final)

    def exited(
        self,
        *,
        lost: bool,
        without_report: str | None,
        repeated_error: str | None,
        lost_node: str = "",
        not_started_on: str = "",
    ) -> None:
        """Record that all processes have ended. The state follows with `requeue` or `end`."""
        assert self._process is not None
        self._seconds_before = self.seconds
        self._process, self._must_save_again = None, False
        before = self._failures
        self._failures = replace(
            before,
            lost=before.lost + lost,
            lost_nodes=(*before.lost_nodes, lost_node) if lost_node else before.lost_nodes,
            not_started_on=(*before.not_started_on, not_started_on) if not_started_on else (),
            without_report=without_report,
            repeated_error=repeated_error,
        )

    def forgive_lost_nodes(self, saved_step: int) -> None:
        """Forget the nodes that were lost before a checkpoint of this step, which is farther than any at that time."""
        self._failures = replace(self._failures, lost_nodes=(), saved_step=saved_step)

    def repeat_to_goal(self) -> None:
        """Run to the goal again before a decision, because the work of the previous runner there is not saved.

        A trial that the searcher has paused at its goal is started for this purpose, and pauses there again.
        """
        self.observed.discard_result()
        # A trial that never validated has nothing to save again.
        self._must_save_again = self.suspended and self.observed.last_step >= 0

    def reveal_failure(self, reason: str) -> None:
        """Record an error that ends the experiment, as the reason with which this trial ends."""
        self._failures = replace(self._failures, of_experiment=reason)

    # Read-only values for the rest of the runner.

    @property
    def id(self) -> int:
        return self.spec.id

    @property
    def number(self) -> int:
        return self.spec.number

    @property
    def state(self) -> TrialState:
        return self._row.state

    @property
    def goal(self) -> float | None:
        """The time at which the trial waits for a decision; None if it runs to its own end."""
        return self._row.goal

    @property
    def source_checkpoint_id(self) -> str | None:
        """The checkpoint that the trial starts from, if there is one."""
        return self._row.source_checkpoint_id

    @property
    def runs(self) -> int:
        """The number of starts of its processes."""
        return self._row.runs

    @property
    def restarts(self) -> int:
        """The number of starts after a failure."""
        return self._row.restarts

    @property
    def process(self) -> TrialProcess | None:
        """The processes of the trial, until their exit is handled."""
        return self._process

    @property
    def failures(self) -> Failures:
        """The failed and lost processes of the trial so far, by which a retry is decided."""
        return self._failures

    @property
    def final_decision(self) -> FinalDecision | None:
        """How the searcher has decided that the trial ends, if it has."""
        return self._decided.final

    @property
    def suspended(self) -> bool:
        """Whether the searcher has paused the trial."""
        return self._decided.suspended

    @property
    def source_number(self) -> int | None:
        """The number of the trial whose checkpoint this one starts from, if there is one."""
        return self._decided.source_number

    @property
    def must_save_again(self) -> bool:
        """Whether the trial was paused by the searcher, but its work is not saved: see `repeat_to_goal`."""
        return self._must_save_again

    @property
    def has_ended(self) -> bool:
        """Whether the trial is in a terminal state."""
        return self.state in TRIAL_ENDED

    @property
    def may_start(self) -> bool:
        """Whether the trial is ready to be started."""
        ready = self.state in _WAITING and self.process is None and self.source_number is None
        return ready and self.observed.at_goal is None and (not self.suspended or self.must_save_again)

    @property
    def reached(self) -> float:
        """The largest length at which the trial was compared."""
        passed = [rung for rung in self.spec.rungs if self.goal is not None and rung < self.goal]
        if self.goal is not None and (self.final_decision is not None or self.suspended):
            passed.append(self.goal)
        return max(passed, default=0.0)

    @property
    def rung(self) -> int:
        """The number of rungs that the trial has passed."""
        return len(self.spec.rungs) if self.goal is None else sum(rung < self.goal for rung in self.spec.rungs)

    @property
    def started_at(self) -> float | None:
        """The time of the latest start by this runner, by the monotonic clock."""
        return self._started_at

    @property
    def state_since(self) -> float | None:
        """The time at which this runner changed the state to the present one, by the monotonic clock."""
        return self._state_since

    @property
    def seconds(self) -> float:
        """The total running time of the trial's processes."""
        now = 0.0 if self.process is None else time.monotonic() - self.process.started
        return self._seconds_before + now
