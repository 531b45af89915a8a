"""The shared state of a running experiment: its trials, engine, store and searcher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from determined.config.secrets.line_mask import LineMask
from determined.engines.base import Engine
from determined.experiment.checkpoints.of_trials import TrialCheckpoints
from determined.experiment.code.startup_hook import PreparedHook
from determined.experiment.files import ExperimentFiles
from determined.experiment.runner.effective_hparams import EffectiveHparams
from determined.experiment.runner.search import Search
from determined.experiment.runner.settings import Settings
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.trials.logs import TrialLogWriter
from determined.stop_request import StopRequest
from determined.store.experiment_changes import Change
from determined.store.experiment_records import Experiment, Lease
from determined.store.store import Store
from determined.store.substores.experiments import Experiments
from determined.store.workers.local_worker_store import is_shared
from determined.store.workers.writer import Writer

T = TypeVar("T")

# The place of a store whose calls are forwarded; the node that runs a job adds the path of its socket.
RELAYED = "relay:"


@dataclass
class RunnerState:
    """An experiment while it is run."""

    experiment: Experiment
    settings: Settings
    search: Search
    files: ExperimentFiles
    lease: Lease
    engine: Engine
    writer: Writer[Store]
    logs: TrialLogWriter
    checkpoints: TrialCheckpoints
    store_place: str
    effective_hparams: EffectiveHparams
    planned: int | None  # number of trials, if known
    hook: PreparedHook | None = None  # the startup hook, after it has run
    hook_is_due: bool = True  # whether the startup hook, if any, must run before the first trial starts
    trials: dict[int, LiveTrial] = field(default_factory=dict)  # by number, including ended ones
    by_key: dict[str, LiveTrial] = field(default_factory=dict)  # trials with processes, by allocation
    stop_request: StopRequest | None = None  # strongest request to stop the experiment so far
    # Run by the queue: unless a pause was requested in the store, the queue resumes the experiment later.
    in_queue: bool = False
    paused_by_request: bool = False  # by a user, or by `pause_for`
    pause_reason: str = ""  # reason of a pause that no user requested
    most_slots: int | None = None  # slot limit of the queue entry
    failure: str | None = None  # why the search cannot continue
    metric_is_reported: bool = False  # whether a trial has reported the searcher metric
    missing_metric: str | None = None  # the message if trials do not report the searcher metric
    least_progress: float = 0.0  # progress shown so far, which must not decrease
    last_code: int | None = None  # exit code of the processes that ended last
    mask: LineMask = field(default_factory=LineMask)  # masks the secrets of the runner and of the configuration

    @property
    def ending(self) -> bool:
        """Whether the experiment is ending. Then exits of trials are only recorded and not reported to the searcher."""
        return self.stop_request in ("cancel", "kill") or self.failure is not None

    @property
    def slot_limit(self) -> int | None:
        """The maximum number of slots for all trials together; None if there is no limit."""
        settings = self.settings
        # The searcher's own limit of concurrent trials does not cover failed trials, many of which may restart
        # together.
        at_once = None if settings.max_at_once is None else settings.max_at_once * settings.slots_per_trial
        limits = [limit for limit in (settings.max_slots, at_once, self.most_slots) if limit is not None]
        return min(limits, default=None)

    @property
    def worker_store_place(self) -> str:
        """Where workers find the store: the nodes of a cluster forward their calls unless the store is a server."""
        return RELAYED if self.engine.spans_machines and not is_shared(self.store_place) else self.store_place

    def live(self) -> list[LiveTrial]:
        """Return the trials that have not ended."""
        return [trial for trial in self.trials.values() if not trial.has_ended]

    def progress(self) -> float:
        """Return the completed fraction of the search, from 0 to 1. It never decreases, although estimates do."""
        searcher = self.search.searcher
        # When all trials have ended the searcher reports 1; `completion.py` decides whether that is a success.
        if not searcher.finished:
            reported = {
                trial.number: trial.observed.progress
                for trial in self.by_key.values()
                if trial.observed.progress is not None
            }
            self.least_progress = max(self.least_progress, searcher.progress(reported))
        return self.least_progress

    def pause_for(self, reason: str) -> None:
        """Pause the experiment because of a problem. It stays PAUSED until the user resumes it, also in the queue."""
        self.stop_request, self.paused_by_request, self.pause_reason = "pause", True, reason

    def query(self, read: Callable[[Experiments], T]) -> T:
        """Run a query on the experiments of the store."""
        return self.writer.query(lambda store: read(store.experiments))

    def commit(self, **parts: Any) -> list[int]:
        """Commit a change (the fields of `Change`) in one transaction, if the lease is still held.

        Secrets in reasons are masked.
        """
        change = _masked(Change(**parts), self.mask)
        return self.query(lambda store: store.commit(self.lease, change))


def _masked(change: Change, mask: LineMask) -> Change:
    """Return a change without secrets in its reasons."""
    experiment = change.experiment
    if experiment is not None and experiment.reason:
        experiment = experiment._replace(reason=mask(experiment.reason))
    trials = tuple(one._replace(reason=mask(one.reason)) if one.reason else one for one in change.trials)
    return change._replace(experiment=experiment, trials=trials)
