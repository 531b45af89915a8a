"""What all parts of a runner work on: the experiment, its trials, and whoever starts, keeps and decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from determined.config.line_mask import LineMask
from determined.engines.base import Engine
from determined.experiment.checkpoints import TrialCheckpoints
from determined.experiment.effects import Effects
from determined.experiment.files import ExperimentFiles
from determined.experiment.logs import LogKeeper
from determined.experiment.search import Search
from determined.experiment.settings import Settings
from determined.experiment.startup_hook import PreparedHook
from determined.experiment.trials import LiveTrial
from determined.store.experiment_records import TRIAL_ENDED, Change, Experiment, Lease
from determined.store.experiments import Experiments
from determined.store.writer import Writer

T = TypeVar("T")

Intent = Literal["pause", "halt", "cancel", "kill"]  # halt: pause without saving


@dataclass
class Running:
    """An experiment while it is run."""

    experiment: Experiment
    settings: Settings
    search: Search
    files: ExperimentFiles
    lease: Lease
    engine: Engine
    writer: Writer
    logs: LogKeeper
    checkpoints: TrialCheckpoints
    store_place: str
    effects: Effects
    planned: int | None  # how many trials there will be, as far as that is known
    hook: PreparedHook | None = None  # the startup hook, once it has run
    hook_is_due: bool = True  # the startup hook, if there is one, must run before the first trial starts
    trials: dict[int, LiveTrial] = field(default_factory=dict)  # by number; those that ended stay
    by_key: dict[str, LiveTrial] = field(default_factory=dict)  # those with processes, by allocation
    intent: Intent | None = None  # what somebody wants of the whole experiment
    in_queue: bool = False  # a pause that nobody asked for in the store is not the end: the queue goes on with it
    paused_by_request: bool = False
    pause_reason: str = ""  # why it is paused although no user asked for it
    most_slots: int | None = None  # that it was put into the queue with
    failure: str | None = None  # why the search cannot go on
    metric_is_reported: bool = False  # some trial has reported the searcher metric
    missing_metric: str | None = None  # the message if trials do not report the searcher metric
    least_progress: float = 0.0  # what was shown already
    last_code: int | None = None  # of the processes that ended last
    mask: LineMask = field(default_factory=LineMask)  # hides the secrets of the runner and of the configuration

    @property
    def ending(self) -> bool:
        """Nothing shall follow any more from what trials do."""
        return self.intent in ("cancel", "kill") or self.failure is not None

    @property
    def slot_limit(self) -> int | None:
        """How many slots all trials together may use; None if nobody has said so."""
        settings = self.settings
        # Many trials that failed may have been started again together.
        at_once = None if settings.max_at_once is None else settings.max_at_once * settings.slots_per_trial
        limits = [limit for limit in (settings.max_slots, at_once, self.most_slots) if limit is not None]
        return min(limits, default=None)

    def live(self) -> list[LiveTrial]:
        return [trial for trial in self.trials.values() if trial.state not in TRIAL_ENDED]

    def progress(self) -> float:
        """Return how much of the search is done, from 0 to 1. It never decreases, although estimates do."""
        searcher = self.search.searcher
        # With all trials over the searcher says 1; whether that is success is decided by `finishing`.
        if not searcher.finished:
            reported = {trial.number: trial.progress for trial in self.by_key.values() if trial.progress is not None}
            self.least_progress = max(self.least_progress, searcher.progress(reported))
        return self.least_progress

    def ask(self, question: Callable[[Experiments], T]) -> T:
        return self.writer.ask(lambda store: question(store.experiments))

    def commit(self, **parts: Any) -> list[int]:
        """Write down, under the lease and in one piece; the fields of `Change`. Reasons lose the secrets in them."""
        change = _masked(Change(**parts), self.mask)
        return self.ask(lambda store: store.commit(self.lease, change))


def _masked(change: Change, mask: LineMask) -> Change:
    experiment = change.experiment
    if experiment is not None and experiment.reason:
        experiment = experiment._replace(reason=mask(experiment.reason))
    trials = tuple(one._replace(reason=mask(one.reason)) if one.reason else one for one in change.trials)
    return change._replace(experiment=experiment, trials=trials)
