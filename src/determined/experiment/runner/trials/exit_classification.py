"""Classify the exit of a trial's processes from the exit code and the requests made before. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from determined.engines.base import Exited
from determined.experiment.runner.fail_fast import TWICE, repeatable_error
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.searchers.base import ExitReason
from determined.store.experiment_records import nodes_text
from determined.store.states import TrialState

_MOST_LOSSES = 3  # above this, lost processes may be caused by the trial itself
# Above these the trial may be to blame. Without a new checkpoint in between: a trial that makes progress may lose any
# number of nodes.
_MOST_LOST_NODES = 10
# One after another, on the same nodes: a bad node is not used any more after fewer of them, so that others have started
# there in between.
_MOST_FAILED_STARTS = 10
_TIME_LIMIT = "its time limit was reached"
_ANOTHER_VERSION = re.compile(r"\bStoreVersionError\b")
_CODES_AFTER_SAVING = (
    129,
    130,
    143,
)  # exit codes of a training that saved and exited because of SIGHUP, SIGINT or SIGTERM


@dataclass(frozen=True)
class Verdict:
    """The new state of a trial. The searcher gets the exit reason, which is None if the trial will be started again."""

    state: TrialState
    exit_reason: ExitReason | None
    reason: str | None = None
    restarts: int = 0
    repeated_error: str | None = None  # error with which this attempt and the one before failed


def classify(
    exited: Exited,
    trial: LiveTrial,
    *,
    early_exit: str | None,
    acknowledged: bool,
    saved_and_stopped: bool,
    has_reported: bool,
    max_restarts: int,
) -> Verdict:
    """Return the verdict on an exit; `has_reported` says whether the trial has ever reported or saved anything.

    A trial without any report or checkpoint that fails twice with the same error is not retried.
    """
    process = trial.process
    assert process is not None
    # The order of these rules matters: the first one that applies decides.
    stopping = process.stopping
    if trial.failures.of_experiment is not None:
        return Verdict("ERROR", "errored", trial.failures.of_experiment, trial.restarts)
    if early_exit == "INVALID_HP":
        reason = process.log.last_error or "the trial refused its hyperparameters"
        return Verdict("INVALID_HP", "invalid_hp", reason, trial.restarts)
    if stopping.without_saving and exited.code != 0:
        # Also if the searcher has ended the trial: its last step may not be saved, which is done when it resumes.
        return Verdict("PAUSED", None, "stopped without saving", trial.restarts)
    if stopping.request in ("cancel", "kill"):
        return Verdict("CANCELED", "canceled", stopping.kill_reason, trial.restarts)
    # The searcher's decision stands, however the processes exited.
    if trial.final_decision is not None:
        state: TrialState = "COMPLETED" if trial.final_decision == "finish" else "STOPPED_EARLY"
        return Verdict(state, "completed", stopping.kill_reason or _unexpected(exited), trial.restarts)
    forced = stopping.kill_reason is not None or stopping.interrupted
    if stopping.request == "pause" and forced:
        return Verdict("PAUSED", None, stopping.kill_reason, trial.restarts)
    if stopping.request == "stop" and forced:  # its time limit was reached
        return Verdict("COMPLETED", "completed", stopping.kill_reason or _TIME_LIMIT, trial.restarts)
    if exited.lost_node:
        return _lost_node(exited.lost_node, trial)
    if is_not_started(exited):
        return _not_started(nodes_text(list(process.nodes)), trial)
    # Not caused by the trial, so it does not count as a restart.
    # Limited, because a trial can cause the loss, for example by using up all memory of the machine.
    if is_lost(exited) and trial.failures.lost < _MOST_LOSSES:
        lost = "its processes were lost with the engine" if exited.lost else cause(exited, "")
        return Verdict("QUEUED", None, lost, trial.restarts)
    exits_as_requested = exited.code == 0 or exited.code in _CODES_AFTER_SAVING
    # Without an acknowledgement the exit happened to follow the request: it is judged like any other.
    if stopping.request == "pause" and acknowledged and exits_as_requested:
        return Verdict("PAUSED", None, None, trial.restarts)
    if stopping.request == "stop" and exits_as_requested:
        return Verdict("COMPLETED", "completed", _TIME_LIMIT, trial.restarts)
    if exited.code == 0:
        return Verdict("COMPLETED", "completed", None, trial.restarts)
    # For example a `kill` by the user or a shutdown of the machine: the trial is not to blame.
    if saved_and_stopped and exited.code in _CODES_AFTER_SAVING:  # the signal came from outside, not from the runner
        return Verdict("QUEUED", None, "it saved and left because of a signal", trial.restarts)
    return _failure(exited, trial, max_restarts, has_reported=has_reported)


def is_lost(exited: Exited) -> bool:
    """Return whether processes ended with the engine or by a signal that users and systems send to end processes."""
    # Signals by which users and systems end processes; SIGSEGV and SIGKILL are failures of the trial.
    return exited.lost or exited.signal in ("SIGTERM", "SIGHUP", "SIGINT")


def is_not_started(exited: Exited) -> bool:
    """Return whether processes could not be started on a node, or their port there was taken by another program."""
    # Processes that were lost after their start were killed, with a node or with the warm process of an engine.
    return exited.lost and exited.signal is None and not exited.lost_node


def is_of_another_version(reason: str | None) -> bool:
    """Return whether the store rejected a trial because its library is another version than the runner's."""
    return reason is not None and _ANOTHER_VERSION.search(reason) is not None


def _lost_node(node: str, trial: LiveTrial) -> Verdict:
    """Return the verdict on a trial whose node was lost: it is not to blame, unless it brings down node after node."""
    before = trial.failures.lost_nodes
    if len(before) < _MOST_LOST_NODES:
        return Verdict("QUEUED", None, f"the node {node} was lost", trial.restarts)
    # The engine writes the reason of each loss in parentheses.
    names = ", ".join(dict.fromkeys(one.partition(" (")[0] for one in (*before, node)))
    reason = f"lost with its nodes {len(before) + 1} times without a new checkpoint in between ({names})"
    return Verdict("ERROR", "errored", f"{reason}; the last one: {node}", trial.restarts)


def _not_started(nodes: str, trial: LiveTrial) -> Verdict:
    """Return the verdict on a trial that could not be started on these nodes, which does not count as a restart."""
    reason = f"its processes could not be started on {nodes}, see its log"
    failed = trial.failures.not_started_on.count(nodes) + 1
    if failed <= _MOST_FAILED_STARTS:
        return Verdict("QUEUED", None, reason, trial.restarts)
    return Verdict("ERROR", "errored", f"{reason}; tried {failed} times", trial.restarts)


def _failure(exited: Exited, trial: LiveTrial, max_restarts: int, *, has_reported: bool) -> Verdict:
    """Return the verdict on a failed attempt: retry, pause or error."""
    process = trial.process
    assert process is not None
    reason = process.stopping.kill_reason or cause(exited, process.log.last_error)
    if is_of_another_version(reason):  # not caused by the trial, and all others would fail in the same way
        return Verdict("PAUSED", None, reason, trial.restarts)
    if process.log.no_retries is not None:
        return Verdict("ERROR", "errored", f"{reason}; not retried: {process.log.no_retries}", trial.restarts)
    error = None if has_reported else repeatable_error(exited, process)
    if error is not None and error == trial.failures.without_report:
        return Verdict("ERROR", "errored", f"{error}{TWICE}", trial.restarts, error)
    if trial.restarts < max_restarts:
        later: Literal["PAUSED", "QUEUED"] = "PAUSED" if process.stopping.request == "pause" else "QUEUED"
        return Verdict(later, None, reason, trial.restarts + 1)
    tried = f"; tried {trial.restarts + 1} times" if trial.restarts else ""
    return Verdict("ERROR", "errored", f"{reason}{tried}", trial.restarts)


def cause(exited: Exited, last_error: str) -> str:
    """Return in a few words why processes ended."""
    if exited.out_of_memory:
        return "out of memory: ended by the operating system"
    if exited.signal is not None:
        return f"ended by the signal {exited.signal}"
    return last_error or f"exit code {exited.code}"


def _unexpected(exited: Exited) -> str | None:
    """Return the reason for a trial that was requested to stop and failed instead, or None."""
    return (
        None
        if exited.code == 0 or exited.code in _CODES_AFTER_SAVING
        else f"exit code {exited.code} when asked to stop"
    )
