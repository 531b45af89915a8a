"""The runner: starts trials, hears how they do, lets the searcher decide, and writes all of it down before it acts."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

from determined.engines.base import Engine, Exited, Job, Line, Rang
from determined.errors import EngineError
from determined.experiment import exits, restoring
from determined.experiment.checkpoints import TrialCheckpoints
from determined.experiment.code_dir import make_work_dir
from determined.experiment.environment import allocation_key, trial_environment
from determined.experiment.files import ExperimentFiles
from determined.experiment.health import Health
from determined.experiment.logs import LogKeeper
from determined.experiment.progress import Observer
from determined.experiment.search import Search
from determined.experiment.settings import Settings
from determined.experiment.trials import Ask, LiveTrial, Process
from determined.experiment.viewing import Viewing
from determined.searchers import base as searchers
from determined.store.experiment_records import (
    Change,
    Experiment,
    ExperimentChange,
    ExperimentState,
    Lease,
    NewEntry,
    NewTrial,
    TrialChange,
    TrialState,
)
from determined.store.experiments import Experiments
from determined.store.records import RequestKind
from determined.store.writer import Writer

logger = logging.getLogger("determined.experiment")

T = TypeVar("T")

Intent = Literal["pause", "cancel", "kill"]

_TICK = 0.25
_MOST_FAILED_STARTS = 3  # in a row
_SECONDS_BETWEEN_LOOKS = 1.0
_LEAST_PATIENCE, _MOST_PATIENCE = 30.0, 300.0
_ENDED = ("COMPLETED", "STOPPED_EARLY", "INVALID_HP", "CANCELED", "ERROR")


class Runner:
    """Runs one experiment for as long as it holds the lease."""

    def __init__(
        self,
        *,
        experiment: Experiment,
        settings: Settings,
        search: Search,
        files: ExperimentFiles,
        lease: Lease,
        engine: Engine,
        writer: Writer,
        logs: LogKeeper,
        checkpoints: TrialCheckpoints,
        store_place: str,
        interrupted: Callable[[], Intent | None],
        requests_before: int,
        extended: searchers.Extended | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.experiment = experiment
        self.settings = settings
        self.search = search
        self.files = files
        self.lease = lease
        self.engine = engine
        self.writer = writer
        self.logs = logs
        self.checkpoints = checkpoints
        self.store_place = store_place
        self.interrupted = interrupted
        self.requests_before = requests_before
        self.extended = extended
        self.viewing = Viewing(experiment, settings, observer)
        self.health = Health(settings, engine)
        self.trials: dict[int, LiveTrial] = {}  # by number; those that ended stay
        self.by_key: dict[str, LiveTrial] = {}
        self.intent: Intent | None = None
        self.failure: str | None = None
        self._last_request = experiment.last_request
        self._looked = 0.0
        self._told_progress = -1.0
        self._failed_starts = 0

    def run(self) -> ExperimentState:
        """Run until the search is over or somebody wants it to end; returns the experiment's state then."""
        self.trials = {trial.number: trial for trial in restoring.trials(self.ask, self.experiment.id)}
        extension = None if self.extended is None else self.extended.max_trials
        decided = [] if self.search.begun else [self.search.start()]
        if self.extended is not None:
            decided.append(self.search.tell(self.extended))  # refused before anything is written
        self.commit(experiment=ExperimentChange(state="ACTIVE", reason="", max_trials=extension))
        for entry, actions in decided:
            self.carry_out(entry, actions)
        self.settle()
        while not self.over():
            self.obey()
            self.start_waiting()
            for event in self.engine.events(_TICK):
                self.hear(event)
            self.look_at_all()
            self.decide()
            self.end_the_unwell()
            self.tell_progress()
        return self.finish()

    # What was left by the runner before this one

    def settle(self) -> None:
        """Trials that the searcher had ended already need no process, if what they did is saved."""
        self.tell_of_ended()
        for trial in self.live():
            self.look(trial)
            if trial.ended_by is not None and self.checkpoints.holds(trial.id, trial.last_step):
                self.close(trial)

    def tell_of_ended(self) -> None:
        """A cancelled search that is extended goes on without the trials that were cancelled with it."""
        journal = self.ask(lambda store: store.journal(self.experiment.id))
        heard = {entry.event["number"] for entry in journal if entry.event["event"] == "exited"}
        for trial in list(self.trials.values()):
            if trial.state in _ENDED and trial.number not in heard:
                self.carry_out(*self.search.tell(searchers.Exited(trial.number, "canceled")))

    # Requests

    def obey(self) -> None:
        """People's wishes, in their order; a signal to this process is one as well."""
        now = time.monotonic()
        if now - self._looked >= _SECONDS_BETWEEN_LOOKS / 2:
            for request in self.ask(lambda store: store.requests(self.experiment.id, self._last_request)):
                self._last_request = request.id
                if request.trial_id is None:
                    if request.id > self.requests_before:  # activating it is a newer wish than those before
                        self.want(None if request.kind == "activate" else request.kind)
                elif request.kind in ("kill", "cancel"):
                    self.end_one(request.trial_id, request.kind)
                self.commit(experiment=ExperimentChange(last_request=request.id))
        wish = self.interrupted()
        if wish is not None:
            self.want(wish)

    def want(self, intent: Intent | None) -> None:
        """A stronger wish wins: killing over cancelling, cancelling over pausing; only a pause can be taken back."""
        strength = {None: 0, "pause": 1, "cancel": 2, "kill": 3}
        if intent is not None and strength[intent] <= strength[self.intent]:
            return
        if intent is None and self.intent != "pause":
            return
        logger.info("experiment %d: %s", self.experiment.id, intent or "activate")
        self.intent = intent
        stopping: dict[Intent, ExperimentState] = {"cancel": "STOPPING_CANCELED", "kill": "STOPPING_KILLED"}
        if intent in stopping:
            self.commit(experiment=ExperimentChange(state=stopping[intent]))
        if intent is not None:
            for trial in self.live():
                self.want_of(trial, intent)

    def end_one(self, trial_id: int, ask: Ask) -> None:
        for trial in self.live():
            if trial.id != trial_id:
                continue
            if trial.process is None:
                self.conclude(trial, "CANCELED", "canceled", None)
            else:
                self.want_of(trial, ask)

    def want_of(self, trial: LiveTrial, ask: Ask, state: TrialState | None = "STOPPING") -> None:
        """Ask a trial's processes to end; they are told through the store, or ended by force."""
        process = trial.process
        if process is None or process.asked in (ask, "kill"):
            return
        process.asked, process.asked_at = ask, time.monotonic()
        trial.state = state or trial.state
        kind: RequestKind = ask
        self.commit(trials=(TrialChange(trial.id, state=state),), requests=((trial.id, kind),))
        if ask == "kill":
            self.engine.kill(process.key)
        else:
            self.engine.ring(process.key)

    # Starting

    def start_waiting(self) -> None:
        """Trials that were at work before go first, then those that came farthest, then whom others may wait for."""
        if self.intent is not None or self.failure is not None:
            return
        self.find_sources()
        waiting = [trial for trial in self.live() if self.may_start(trial)]
        for trial in sorted(waiting, key=self.turn):
            if not self.has_room():
                return
            self.start(trial)

    def turn(self, trial: LiveTrial) -> tuple[bool, int, int, int]:
        return trial.runs == 0, -trial.rung, len(self.search.searcher.waits_for(trial.number)), trial.number

    def may_start(self, trial: LiveTrial) -> bool:
        ready = trial.process is None and not trial.suspended and trial.at_goal is None
        return ready and trial.source_number is None

    def find_sources(self) -> None:
        """A copy begins with what its source has saved by now, which is asked before the source itself goes on."""
        for trial in self.live():
            if trial.source_number is None or self.trials[trial.source_number].process is not None:
                continue
            newest = self.checkpoints.newest_good(self.trials[trial.source_number].id)
            trial.source, trial.source_number = None if newest is None else newest[0], None
            self.commit(trials=(TrialChange(trial.id, warm_start=trial.source),))

    def has_room(self) -> bool:
        need, most = self.settings.slots_per_trial, self.settings.max_slots
        used = need * len(self.by_key)
        return self.engine.free_slots() >= need and (most is None or used + need <= most)

    def start(self, trial: LiveTrial) -> None:
        """Write down that it starts, then start it: if this process dies in between, it is started again."""
        trial.runs += 1
        key = allocation_key(self.experiment.id, trial, trial.runs)
        own = self.checkpoints.newest_good(trial.id) if trial.runs > 1 else None
        trial.attempts_before = self.attempts(trial) if trial.runs > 1 else 0
        checkpoint, steps = own or (trial.source, 0)
        environment = trial_environment(
            experiment_id=self.experiment.id,
            config=self.settings.config,
            trial=trial,
            key=key,
            latest_checkpoint=checkpoint,
            steps_completed=steps,
            slots=self.settings.slots_per_trial,
            store_place=self.store_place,
            time_metric=self.settings.time_metric,
        )
        directory = make_work_dir(self.files.code, self.files.work_dir(trial.id))
        self.commit(trials=(TrialChange(trial.id, state="RUNNING", allocation=key, runs=trial.runs),))
        trial.state, trial.last_step = "RUNNING", steps if own else -1
        trial.process = Process(key)
        self.by_key[key] = trial
        job = Job(key, self.settings.command, environment, directory, self.settings.slots_per_trial)
        try:
            self.engine.start(job)
        except EngineError as error:
            self.could_not_start(trial, error)
        else:
            self._failed_starts = 0

    def could_not_start(self, trial: LiveTrial, error: EngineError) -> None:
        """No fault of the trial's: it waits again, unless the engine has failed too often to go on."""
        self._failed_starts += 1
        if self._failed_starts >= _MOST_FAILED_STARTS:
            raise error
        logger.warning("trial %d could not be started, which is tried again: %s", trial.id, error)
        assert trial.process is not None
        del self.by_key[trial.process.key]
        trial.process, trial.state = None, "QUEUED"

    # Hearing

    def hear(self, event: Exited | Line | Rang) -> None:
        trial = self.by_key.get(event.key)
        if trial is None or trial.process is None:
            return
        if isinstance(event, Line):
            self.logs.keep(trial, event)
        elif isinstance(event, Rang):
            self.look(trial)
        else:
            self.exited(trial, event)

    def look_at_all(self) -> None:
        now = time.monotonic()
        if now - self._looked < _SECONDS_BETWEEN_LOOKS:
            return
        self._looked = now
        for trial in self.by_key.values():
            self.look(trial)
            trial.progress = self.ask(partial(_progress_of, trial.id))

    def look(self, trial: LiveTrial) -> None:
        """Take in the validations that it reported since the last look."""
        for report in self.ask(lambda store: store.validations(trial.id, trial.last_step)):
            assert report.steps_completed is not None
            if report.attempt <= trial.attempts_before:  # of an earlier start, from which this one goes back
                continue
            trial.last_step = report.steps_completed
            if trial.process is not None:
                trial.process.sign_of_life = time.monotonic()
            metric = _number(report.metrics.get(self.settings.metric))
            when = self.time_of(report.steps_completed, report.metrics)
            self.complain_once(trial, metric is None, f"its validations have no number called {self.settings.metric!r}")
            compared = trial.goal is not None
            self.complain_once(trial, compared and when is None, f"they have no {self.settings.time_metric!r} either")
            trial.last_value = (metric, when)
            trial.best = self.better(trial.best, metric)
            if trial.goal is not None and when is not None and when >= trial.goal:
                trial.at_goal = (metric, when)

    def time_of(self, steps: int, metrics: dict[str, Any]) -> float | None:
        name = self.settings.time_metric
        if name is None:
            return None
        return _number(metrics.get(name, steps if name == "batches" else None))

    def better(self, best: float | None, value: float | None) -> float | None:
        if value is None or not math.isfinite(value):
            return best
        if best is None:
            return value
        return min(best, value) if self.settings.smaller_is_better else max(best, value)

    def complain_once(self, trial: LiveTrial, wrong: bool, words: str) -> None:
        if wrong and words not in trial.warned:
            trial.warned.add(words)
            logger.warning("trial %d: %s; the searcher takes it for the worst", trial.id, words)

    # Deciding

    def decide(self) -> None:
        """Answer trials that have come to their goals, in the order in which the searcher takes results."""
        answered = True
        while answered:
            answered = False
            for trial in [trial for trial in self.live() if trial.at_goal is not None]:
                if trial.at_goal is not None and not self.must_wait(trial):
                    self.answer(trial)
                    answered = True

    def must_wait(self, trial: LiveTrial) -> bool:
        """For earlier trials on their way to the same rung, so that who is faster does not matter; not for ever."""
        if trial.ended_by is not None:
            return False
        earlier = [self.trials[number] for number in self.search.searcher.waits_for(trial.number)]
        awaited = [other.id for other in earlier if other.process is not None or (other.runs and self.is_queued(other))]
        if not awaited:
            return False
        now = time.monotonic()
        spent = now - trial.decided_at
        trial.waiting_since = trial.waiting_since or now
        patience = min(max(_LEAST_PATIENCE, spent - (now - trial.waiting_since)), _MOST_PATIENCE)
        if now - trial.waiting_since < patience:
            return True
        logger.warning(
            "trial %d is compared without trial %s, which it has waited for during %.0f s: another run of this search "
            "may decide otherwise",
            trial.id,
            ", ".join(map(str, awaited)),
            patience,
        )
        return False

    def answer(self, trial: LiveTrial) -> None:
        assert trial.at_goal is not None
        metric, when = trial.at_goal
        trial.at_goal, trial.waiting_since, trial.decided_at = None, None, time.monotonic()
        if trial.ended_by is not None:  # decided before a crash, and now it is there again
            self.want_of(trial, "stop")
            return
        entry, actions = self.search.tell(searchers.Validated(trial.number, metric, when))
        self.carry_out(entry, actions)

    def carry_out(self, entry: NewEntry, actions: Iterable[searchers.Action], *changes: TrialChange) -> None:
        """Commit what was decided in one piece, then let trials know."""
        created: list[searchers.Create] = []
        trial_changes = list(changes)
        requests: list[tuple[int, RequestKind]] = []
        rung: list[LiveTrial] = []
        closed: list[LiveTrial] = []
        for action in actions:
            if isinstance(action, searchers.Create):
                created.append(action)
                continue
            trial = self.trials[action.number]
            if trial.state in _ENDED:
                continue
            process = trial.process
            if isinstance(action, searchers.Continue):
                trial.goal, trial.decided_at, trial.suspended = action.goal, time.monotonic(), False
                trial_changes.append(
                    TrialChange(trial.id, goal=action.goal, state="QUEUED" if process is None else None)
                )
                trial.state = "QUEUED" if process is None else trial.state
            elif isinstance(action, searchers.Pause):
                trial.suspended = True
                trial_changes.append(TrialChange(trial.id, state="PAUSED" if process is None else "STOPPING"))
                trial.state = "PAUSED" if process is None else "STOPPING"
                requests += self._ask_process(trial, "pause")
            else:
                trial.ended_by = "finish" if action.finished else "stop"
                if process is None:
                    closed.append(trial)
                else:
                    trial_changes.append(TrialChange(trial.id, state="STOPPING"))
                    trial.state = "STOPPING"
                    requests += self._ask_process(trial, "stop")
            rung.append(trial)
        ids = self.commit(
            journal=(entry,),
            snapshot=self.search.snapshot_if_due(),
            new_trials=tuple(_new_trial(action, self.settings.source) for action in created),
            trials=tuple(_merged(trial_changes)),
            requests=tuple(requests),
        )
        for action, trial_id in zip(created, ids, strict=True):
            self.trials[action.number] = restoring.created(action, trial_id, self.settings.source)
        for trial in rung:
            if trial.process is not None:
                self.engine.ring(trial.process.key)
        for trial in closed:
            self.close(trial)
        if self.search.searcher.failure is not None and self.failure is None:
            self.fail(self.search.searcher.failure)

    def _ask_process(self, trial: LiveTrial, ask: Literal["stop", "pause"]) -> list[tuple[int, RequestKind]]:
        process = trial.process
        if process is None or process.asked is not None:
            return []
        process.asked, process.asked_at = ask, time.monotonic()
        return [(trial.id, ask)]

    # Ends

    def exited(self, trial: LiveTrial, event: Exited) -> None:
        """All that it reported is in the store by now."""
        process = trial.process
        assert process is not None
        self.look(trial)
        row = self.ask(lambda store: store.trial(trial.id))
        verdict = exits.judge(
            event,
            trial,
            early_exit=row.early_exit,
            acknowledged=row.stop_acknowledged,
            max_restarts=self.settings.max_restarts,
        )
        logger.info("trial %d: %s%s", trial.id, verdict.state, f" ({verdict.reason})" if verdict.reason else "")
        self.logs.done(trial)
        trial.seconds_before, trial.restarts = trial.seconds, verdict.restarts
        trial.process = None
        del self.by_key[process.key]
        if verdict.told is None:
            state: TrialState = "PAUSED" if trial.suspended or self.intent == "pause" else "QUEUED"
            trial.state = state
            self.commit(
                trials=(TrialChange(trial.id, state=state, restarts=trial.restarts, reason=verdict.reason or ""),)
            )
        elif verdict.told == "completed" and trial.ended_by is None and trial.last_value is not None:
            # It ended by itself: what it came to is a result as well.
            metric, when = trial.last_value
            trial.at_goal = None
            entry, actions = self.search.tell(searchers.Validated(trial.number, metric, when))
            self.carry_out(entry, [action for action in actions if action_is_for_others(action, trial.number)])
            self.conclude(trial, verdict.state, verdict.told, verdict.reason)
        else:
            trial.at_goal = None
            self.conclude(trial, verdict.state, verdict.told, verdict.reason)

    def close(self, trial: LiveTrial) -> None:
        """The searcher ended a trial that has no process."""
        self.conclude(trial, "COMPLETED" if trial.ended_by == "finish" else "STOPPED_EARLY", "completed", None)

    def conclude(self, trial: LiveTrial, state: TrialState, told: searchers.ExitReason, reason: str | None) -> None:
        """A trial is over: written down together with what follows from it."""
        trial.state = state
        if self.intent in ("cancel", "kill") or self.failure is not None:  # nothing shall follow from it
            change = TrialChange(trial.id, state=state, reason=reason or "", ended=time.time())
            self.commit(trials=(change,))
            return
        entry, actions = self.search.tell(searchers.Exited(trial.number, told))
        change = TrialChange(trial.id, state=state, restarts=trial.restarts, reason=reason or "", ended=time.time())
        self.carry_out(entry, actions, change)

    def fail(self, reason: str) -> None:
        """The search cannot go on; trials at work are cancelled."""
        logger.error("experiment %d: %s", self.experiment.id, reason)
        self.failure = reason
        self.commit(experiment=ExperimentChange(state="STOPPING_ERROR", reason=reason))
        for trial in self.live():
            self.want_of(trial, "cancel")

    def end_the_unwell(self) -> None:
        """Trials that hang, that do not stop when asked to, or whose time is over."""
        for trial in list(self.by_key.values()):
            assert trial.process is not None
            if self.health.time_is_over(trial):
                self.want_of(trial, "stop")
            reason = self.health.reason_to_kill(trial)
            if reason is not None:
                logger.warning("trial %d is killed: %s", trial.id, reason)
                trial.process.killed = reason
                self.engine.kill(trial.process.key)

    # The end

    def over(self) -> bool:
        if self.by_key:
            return False
        return self.intent is not None or self.failure is not None or self.search.searcher.finished

    def finish(self) -> ExperimentState:
        """The last word about the experiment, and about trials that will not go on."""
        if self.intent == "pause" and not self.search.searcher.finished:
            paused = [TrialChange(trial.id, state="PAUSED") for trial in self.live()]
            self.commit(
                trials=tuple(paused),
                snapshot=self.search.snapshot_if_due(now=True),
                experiment=ExperimentChange(state="PAUSED", progress=self.progress()),
            )
            self.viewing.show(self, "PAUSED", last=True)
            return "PAUSED"
        for trial in self.live():
            trial.state = "CANCELED"
            self.commit(trials=(TrialChange(trial.id, state="CANCELED", ended=time.time()),))
        state, reason = self.outcome()
        stopping: dict[str, ExperimentState] = {"COMPLETED": "STOPPING_COMPLETED", "ERROR": "STOPPING_ERROR"}
        if state in stopping:
            self.commit(experiment=ExperimentChange(state=stopping[state]))
        self.checkpoints.clean_up()
        self.commit(
            snapshot=self.search.snapshot_if_due(now=True),
            experiment=ExperimentChange(
                state=state,
                reason=reason,
                progress=1.0 if state == "COMPLETED" else self.progress(),
                ended=time.time(),
            ),
        )
        self.viewing.show(self, state, last=True)
        return state

    def outcome(self) -> tuple[ExperimentState, str | None]:
        """One trial that came through is enough."""
        if self.failure is not None:
            return "ERROR", self.failure
        if self.intent in ("cancel", "kill"):
            return "CANCELED", None
        states = {trial.state for trial in self.trials.values()}
        if states <= {"CANCELED"}:
            return "CANCELED", None
        if states <= {"ERROR", "CANCELED", "INVALID_HP"}:
            return "ERROR", "no trial came to its end: see `det experiment list-trials`"
        compared = any(trial.rungs for trial in self.trials.values())
        if compared and all(trial.best is None for trial in self.trials.values()):
            return "ERROR", f"no trial has reported a validation metric called {self.settings.metric!r} as a number"
        return "COMPLETED", None

    # Small things

    def attempts(self, trial: LiveTrial) -> int:
        return max((attempt.number for attempt in self.writer.ask(lambda store: store.attempts(trial.id))), default=0)

    def live(self) -> list[LiveTrial]:
        return [trial for trial in self.trials.values() if trial.state not in _ENDED]

    def is_queued(self, trial: LiveTrial) -> bool:
        return trial.state == "QUEUED" and trial.process is None and not trial.suspended and trial.at_goal is None

    def progress(self) -> float:
        return self.search.searcher.progress(
            {trial.number: trial.progress for trial in self.by_key.values() if trial.progress is not None}
        )

    def tell_progress(self) -> None:
        self.viewing.show(self, self.shown_state())
        progress = self.progress()
        if abs(progress - self._told_progress) >= 0.001 and self.viewing.often_enough():
            self._told_progress = progress
            self.commit(experiment=ExperimentChange(progress=progress))

    def shown_state(self) -> str:
        if self.intent is not None:
            return {"pause": "PAUSING", "cancel": "STOPPING_CANCELED", "kill": "STOPPING_KILLED"}[self.intent]
        return "ACTIVE" if self.failure is None else "STOPPING_ERROR"

    def ask(self, question: Callable[[Experiments], T]) -> T:
        return self.writer.ask(lambda store: question(store.experiments))

    def commit(self, **parts: Any) -> list[int]:
        change = Change(**parts)
        return self.ask(lambda store: store.commit(self.lease, change))


def action_is_for_others(action: searchers.Action, number: int) -> bool:
    return isinstance(action, searchers.Create) or action.number != number


def _new_trial(action: searchers.Create, source: str | None) -> NewTrial:
    return NewTrial(
        number=action.number,
        request_id=action.request_id,
        hparams=action.hparams,
        seed=action.seed,
        goal=action.goal,
        rungs=list(action.rungs),
        bracket=action.bracket,
        source=source if action.source is None else None,
        created=time.time(),
    )


def _merged(changes: Iterable[TrialChange]) -> list[TrialChange]:
    """One change for each trial: the later word wins."""
    merged: dict[int, TrialChange] = {}
    for change in changes:
        known = merged.get(change.trial_id, change)
        said = {name: value for name, value in vars(change).items() if value is not None and value != _UNCHANGED}
        merged[change.trial_id] = replace(known, **said)
    return list(merged.values())


_UNCHANGED = TrialChange(0).goal


def _progress_of(trial_id: int, store: Experiments) -> float | None:
    return store.trial(trial_id).progress


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
