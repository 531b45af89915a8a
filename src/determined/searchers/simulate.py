"""Simulates a search with artificial trials in virtual time.

Public: users examine a search with it before they run it (docs/searchers.md), and authors of search methods test
theirs. The library itself does not call it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from determined.searchers.base import (
    Action,
    Continue,
    Create,
    Event,
    Exited,
    ExitReason,
    Pause,
    Searcher,
    Stop,
    Validated,
)


@dataclass(frozen=True)
class Behaviour:
    """The behaviour of an artificial trial: its metric over time, its speed, and when and how it exits unasked."""

    metric: Callable[[float], float | None]
    seconds_per_unit: float = 1.0
    ends_at: float = math.inf
    ends_as: ExitReason = "completed"
    validates_every: float = math.inf  # in addition to its rungs


@dataclass
class Trace:
    """The record of a simulation. `decisions` are the actions for each trial, in order."""

    decisions: dict[int, list[Action]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    most_at_once: int = 0
    seconds: float = 0.0
    out_of_order: int = 0


@dataclass
class _Trial:
    """The state of a simulated trial. `waits` is its report at its goal that was not passed to the searcher yet."""

    create: Create
    behaviour: Behaviour
    goal: float | None
    time: float = 0.0
    paused: bool = False
    waits: Validated | None = None


def simulate(
    searcher: Searcher,
    behave: Callable[[Create], Behaviour],
    *,
    slots: int,
    patient: bool = True,
    watch: Callable[[Event | None, list[Action]], None] = lambda event, actions: None,
) -> Trace:
    """Simulate a search to its end and return what happened.

    `watch` is called with every event and its actions, first with None for the start. Without `patient`, results are
    passed to the searcher in the order in which they arrive, ignoring `waits_for`.
    """
    return _Simulation(searcher, behave, slots, patient, watch).run()


class _Simulation:
    """A simulation in progress. Like the runner, it lets a trial at its goal wait with its slot until its turn."""

    def __init__(
        self,
        searcher: Searcher,
        behave: Callable[[Create], Behaviour],
        slots: int,
        patient: bool,
        watch: Callable[[Event | None, list[Action]], None],
    ) -> None:
        self.searcher, self.behave, self.watch = searcher, behave, watch
        self.slots, self.patient = slots, patient
        self.trace = Trace()
        self.trials: dict[int, _Trial] = {}
        self.running: set[int] = set()
        self.new: list[int] = []  # never started
        self.revived: list[int] = []  # resumed trials, which precede new ones
        self.clock = 0.0
        self.agenda: list[tuple[float, int]] = []

    def run(self) -> Trace:
        """Simulate the search until it is finished, and return what happened."""
        self._carry_out(None, self.searcher.start())
        while not self.searcher.finished and self.searcher.failure is None:
            self._fill_slots()
            if self._process_waiting_report():
                continue
            if not self.agenda:
                assert any(trial.waits for trial in self.trials.values()), "the search stands still"
                self._process_report_out_of_order()
                continue
            self.clock, number = heapq.heappop(self.agenda)
            self._report_or_end(number)
        self.trace.seconds = self.clock
        return self.trace

    def _fill_slots(self) -> None:
        """Start waiting trials on free slots."""
        while len(self.running) < self.slots and (self.revived or self.new):
            number = (self.revived or self.new).pop(0)
            self.running.add(number)
            self._schedule_next_report(number)
        self.trace.most_at_once = max(self.trace.most_at_once, len(self.running))

    def _schedule_next_report(self, number: int) -> None:
        """Schedule the next moment at which a trial reports or ends."""
        trial = self.trials[number]
        seconds = (self._next_stop(trial) - trial.time) * trial.behaviour.seconds_per_unit
        assert math.isfinite(seconds), f"trial {number} has neither a goal nor an end"
        heapq.heappush(self.agenda, (self.clock + max(seconds, 0.0), number))

    def _next_stop(self, trial: _Trial) -> float:
        """Return the next time at which a trial reports or ends."""
        behaviour, times = trial.behaviour, [trial.behaviour.ends_at]
        times += [rung for rung in trial.create.rungs if rung > trial.time]
        if trial.goal is not None:
            times.append(max(trial.goal, trial.time))
        if math.isfinite(behaviour.validates_every):
            times.append((math.floor(trial.time / behaviour.validates_every) + 1) * behaviour.validates_every)
        return min(times)

    def _report_or_end(self, number: int) -> None:
        """Let a trial report or end."""
        trial = self.trials[number]
        trial.time = self._next_stop(trial)
        if trial.time >= trial.behaviour.ends_at:
            self._remove_trial(number, trial.behaviour.ends_as)
            return
        report = Validated(number, trial.behaviour.metric(trial.time), trial.time)
        if trial.goal is not None and trial.time >= trial.goal:
            trial.waits = report
        else:
            self._send_event(report)
            self._schedule_next_report(number)

    def _process_waiting_report(self) -> bool:
        """Pass the report of one waiting trial to the searcher if its turn has come. Return whether there was one."""
        for number in sorted(self.running):
            report = self.trials[number].waits
            if report is not None and not self._must_wait(number):
                self._process_report(number, report)
                return True
        return False

    def _must_wait(self, number: int) -> bool:
        return self.patient and bool(self.searcher.waits_for(number) & self._running_numbers())

    def _running_numbers(self) -> frozenset[int]:
        return frozenset([*self.running, *self.new, *self.revived])

    def _process_report_out_of_order(self) -> None:
        """Process the report of the waiting trial with the lowest number before its turn.

        The waiting trials hold all slots, so no other trial can report.
        """
        self.trace.out_of_order += 1
        number = min(number for number in self.running if self.trials[number].waits)
        report = self.trials[number].waits
        assert report is not None
        self._process_report(number, report)

    def _process_report(self, number: int, report: Validated) -> None:
        """Pass a waiting report to the searcher and let the trial continue."""
        trial = self.trials[number]
        trial.waits = None
        self._send_event(report)
        if number in self.running and number in self.trials:
            self._schedule_next_report(number)

    def _send_event(self, event: Event) -> None:
        """Pass an event to the searcher and carry out its actions."""
        self.trace.events.append(event)
        self._carry_out(event, self.searcher.on_event(event))

    def _remove_trial(self, number: int, reason: ExitReason) -> None:
        """Remove a trial that has ended."""
        self.running.discard(number)
        for queue in (self.new, self.revived):
            if number in queue:
                queue.remove(number)
        del self.trials[number]
        self._send_event(Exited(number, reason))

    def _carry_out(self, event: Event | None, actions: list[Action]) -> None:
        """Carry out the actions of the searcher."""
        self.watch(event, actions)
        left = []
        for action in actions:
            self.trace.decisions.setdefault(action.number, []).append(action)
            if isinstance(action, Create):
                self.trials[action.number] = _Trial(action, self.behave(action), action.goal)
                self.new.append(action.number)
            elif isinstance(action, Pause):
                self.trials[action.number].paused = True
                self.running.discard(action.number)
            elif isinstance(action, Continue):
                trial = self.trials[action.number]
                trial.goal = action.goal
                if trial.paused:
                    trial.paused = False
                    self.revived.append(action.number)
            else:
                assert isinstance(action, Stop)
                left.append(action.number)
        for number in left:
            self._remove_trial(number, "completed")
