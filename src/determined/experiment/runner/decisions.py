"""Pass results to the searcher, commit its decisions in one transaction, then carry them out."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any

from determined.config.secrets.fixed_secrets import mask_fixed
from determined.experiment.runner import fail_fast, restored_trials
from determined.experiment.runner.runner_state import RunnerState
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.trials.stopping import request_stop
from determined.experiment.runner.trials.trial_values import final_decision
from determined.searchers.base import Action, Continue, Create, Event, Exited, ExitReason, Pause, Stop, Validated
from determined.stop_request import StopRequest
from determined.store.experiment_changes import ExperimentChange, NewTrial, TrialChange
from determined.store.experiment_records import JournalEntry
from determined.store.states import TrialState

logger = logging.getLogger("determined.experiment")

# A trial waits for earlier ones as long as its own last stretch took, within these limits (seconds).
# The lower limit covers trials that train only for seconds between rungs, the upper one a trial that hangs.
_LEAST_PATIENCE, _MOST_PATIENCE = 30.0, 300.0


def decide(run: RunnerState) -> None:
    """Process trials that have reached their goals, in the order in which the searcher takes results."""
    answered = True
    while answered:  # each decision may make another trial the next one whose result is due
        answered = False
        for trial in [trial for trial in run.live() if trial.observed.at_goal is not None]:
            # Asked again, because a decision of this round may have taken the result away.
            if trial.observed.at_goal is not None and not _must_wait(run, trial):
                _answer(run, trial)
                answered = True


def report_event(run: RunnerState, event: Event, *changes: TrialChange, about: LiveTrial | None = None) -> None:
    """Report an event to the searcher and carry out its decision, together with `changes`.

    `about` is a trial whose end is recorded next: actions for it are dropped, because nothing can be done with it any
    more.
    """
    entry, actions = run.search.report(event)
    if about is not None:
        actions = [action for action in actions if isinstance(action, Create) or action.number != about.number]
    carry_out(run, entry, actions, changes)


def carry_out(
    run: RunnerState,
    entry: JournalEntry,
    actions: Iterable[Action],
    changes: Sequence[TrialChange] = (),
    experiment: ExperimentChange | None = None,
) -> None:
    """Commit a decision with all its consequences in one transaction; only then start, wake or end trials.

    Otherwise a crash in between would leave processes that contradict the store.
    """
    created: list[Create] = []
    trials, requests = list(changes), list[tuple[int, StopRequest]]()
    concerned: list[LiveTrial] = []
    closed: list[LiveTrial] = []
    for action in actions:
        if isinstance(action, Create):
            created.append(action)
            continue
        trial = run.trials[action.number]
        if trial.has_ended:
            continue  # canceled before the search was extended; the searcher learns of it with the next event
        concerned.append(trial)
        if isinstance(action, Continue):
            trials.append(trial.continue_to(action.goal))
        # Without processes there is nothing to stop: the end is recorded by `close` below.
        elif isinstance(action, Stop) and trial.process is None:
            trial.decide_end(final_decision(action))
            closed.append(trial)
        else:
            trials.append(_stop(trial, action, requests))
    # One transaction with the journal entry: after a crash the searcher and the rows agree.
    ids = run.commit(
        journal=(entry,),
        snapshot=run.search.snapshot_if_due(),
        new_trials=tuple(
            new_trial(action, run.settings.source_checkpoint_id, run.settings.space) for action in created
        ),
        trials=tuple(trials),
        requests=tuple(requests),
        experiment=experiment,
    )
    for action, trial_id in zip(created, ids, strict=True):
        run.trials[action.number] = restored_trials.created(action, trial_id, run.settings.source_checkpoint_id)
    # Woken after the commit, because they read the decision from the store.
    for trial in concerned:
        if trial.process is not None:
            run.engine.wake(trial.process.key)
    for trial in closed:
        if not trial.has_ended:  # the end of a trial before it may have led to a decision about this one
            close(run, trial)
    fail_if_pointless(run)


def conclude(run: RunnerState, trial: LiveTrial, state: TrialState, exit: ExitReason, reason: str | None) -> None:
    """Record that a trial has ended, together with the searcher's reaction."""
    change = trial.end(state, reason or "")
    # The searcher gets no more events: its decisions would start trials of an experiment that is ending.
    if run.ending:
        run.commit(trials=(change,))
    else:
        report_event(run, Exited(trial.number, exit), change)


def close(run: RunnerState, trial: LiveTrial) -> None:
    """End a trial without processes, as the searcher decided."""
    conclude(run, trial, "COMPLETED" if trial.final_decision == "finish" else "STOPPED_EARLY", "completed", None)


def fail_if_pointless(run: RunnerState) -> None:
    """End the experiment if its searcher cannot continue, or if no useful result is possible."""
    # Only once: stopping trials leads to exits, which call this again.
    if run.failure is not None:
        return
    reason = (
        run.search.searcher.failure
        or run.effective_hparams.reason_to_stop(run.trials)
        or run.missing_metric
        or fail_fast.shared_error(run)
    )
    if reason is None:
        return
    # The rows that led to this are kept, so that after a crash the next runner comes to the same conclusion.
    logger.error("experiment %d: %s", run.experiment.id, reason)
    run.failure = reason
    run.commit(experiment=ExperimentChange(state="STOPPING_ERROR", reason=reason))
    for trial in run.live():
        request_stop(run, trial, "cancel")


def awaited(run: RunnerState, trial: LiveTrial) -> list[LiveTrial]:
    """Return the earlier trials for which a trial at its goal waits: those that run, or will run again."""
    # A paused or final trial is not compared any more, so it waits for nothing.
    if trial.final_decision is not None or trial.suspended:
        return []
    earlier = [run.trials[number] for number in run.search.searcher.waits_for(trial.number)]
    return [other for other in earlier if other.process is not None or (other.runs and other.may_start)]


def _must_wait(run: RunnerState, trial: LiveTrial) -> bool:
    """Return whether a trial must wait for earlier trials on their way to the same rung.

    This makes decisions independent of the speed of trials. The waiting time is limited.
    """
    others = awaited(run, trial)
    if not others:
        return False
    if run.engine.wants_more_slots and any(other.process is None for other in others):
        trial.wait.suspend()  # other experiments hold the slots: the waiting time does not count
        return True
    since = trial.wait.begin()
    # As long as this trial itself took, since equal amounts of training should take about as long.
    patience = min(max(_LEAST_PATIENCE, since - trial.wait.decided_at), _MOST_PATIENCE)
    if time.monotonic() - since < patience:
        return True
    logger.warning(
        "trial %d is compared without trial %s after waiting %.0f s for it: the result of this search may not be "
        "reproducible",
        trial.id,
        ", ".join(str(other.id) for other in others),
        patience,
    )
    return False


def _answer(run: RunnerState, trial: LiveTrial) -> None:
    """Report the result of a trial at its goal to the searcher, or carry out an earlier decision."""
    result = trial.observed.take_result()
    trial.wait.end()
    # The result is not reported twice: the journal contains it.
    if trial.final_decision is not None:  # decided before a crash; the trial was run again to save its work
        request_stop(run, trial, "stop")
    elif trial.suspended:
        request_stop(run, trial, "pause")
    else:
        goal = trial.goal
        report_event(run, Validated(trial.number, result.metric, result.time))
        # A searcher that returns no action would leave the trial waiting forever.
        if trial.goal == goal and trial.final_decision is None and not trial.suspended and not trial.has_ended:
            logger.error("trial %d: the searcher returned no action at %s; the trial continues", trial.id, result.time)
            run.commit(trials=(trial.continue_to(None),))
            if trial.process is not None:
                run.engine.wake(trial.process.key)


def _stop(trial: LiveTrial, action: Pause | Stop, requests: list[tuple[int, StopRequest]]) -> TrialChange:
    """Pause or stop a trial; add a request to its processes to `requests`, unless one was made before."""
    # An earlier request, such as a user's pause, is carried out first.
    if trial.process is not None and trial.process.stopping.request is None:
        requests.append((trial.id, "pause" if isinstance(action, Pause) else "stop"))
    return trial.suspend() if isinstance(action, Pause) else trial.stop(final_decision(action))


def new_trial(action: Create, source_checkpoint_id: str | None, space: dict[str, Any]) -> NewTrial:
    """Return the row of a trial that the searcher creates, starting from a checkpoint if one is given."""
    return NewTrial(
        number=action.number,
        request_id=action.request_id,
        hparams=mask_fixed(action.hparams, space),
        seed=action.seed,
        goal=action.goal,
        rungs=list(action.rungs),
        bracket=action.bracket,
        # A trial that copies another gets that trial's checkpoint when it starts, see `start_from`.
        source_checkpoint_id=source_checkpoint_id if action.source is None else None,
        created=time.time(),
    )
