"""A worker's connection to the runner of its search: waits for decisions and reads shared results."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from determined.config.stored import StoredConfig
from determined.core.supervision.wakeups import WorkerWakeups
from determined.errors import StoreError
from determined.info import ClusterInfo
from determined.store.workers.worker_store import WorkerStore

if TYPE_CHECKING:
    from determined.store.experiment_records import TrialDecision

_SECONDS_BETWEEN_POLLS = 1.0  # polling interval, in case a wake-up is lost


class Managed:
    """A trial that was started by the runner of a search. Only its chief waits for decisions.

    Searchers compare trials at certain lengths, measured in `time_metric`. The next such length is the trial's goal.
    After a validation at the goal, training waits until the runner has set a new goal or requested a stop.
    """

    def __init__(
        self,
        *,
        key: str,
        experiment_id: int,
        trial_id: int,
        steps_completed: int,
        metric: str | None,
        smaller_is_better: bool,
        time_metric: str | None,
        is_copied: bool,
        wakeups: WorkerWakeups,
    ) -> None:
        self.key = key
        self.trial_id = trial_id
        self.steps_completed = steps_completed  # steps of the checkpoint from which the runner wants it to resume
        self.metric = metric
        self.time_metric = time_metric
        self._experiment_id = experiment_id
        self._smaller_is_better = smaller_is_better
        self._is_copied = is_copied
        self._wakeups = wakeups
        self._goal: float = -math.inf  # unknown until the first validation reads it from the store

    def wait_if_due(self, time: float | None, read_goal: Callable[[], float], is_stopping: Callable[[], bool]) -> None:
        """Wait, if the trial has reached its goal, until the goal was raised or a stop was requested.

        `read_goal` reads goal and requests from the store; `is_stopping` says whether one of these is to stop.
        """
        if time is None or time < self._goal:
            return
        asked = False
        # A loop, because a wake-up may be lost or may concern another trial.
        while True:
            self._goal = read_goal()
            if is_stopping() or time < self._goal:
                return
            # Once: the runner polls as well, and more datagrams would only fill its socket.
            if not asked:
                asked = True
                self._wakeups.wake_runner()
            self._wakeups.wait(_SECONDS_BETWEEN_POLLS)

    def best_validation(self, store: WorkerStore) -> float | None:
        """Return the best searcher metric of all trials of the experiment."""
        if self.metric is None:
            return None
        return store.best_validation(self._experiment_id, self.metric, self._smaller_is_better)

    def checkpoints_in_use(self, store: WorkerStore) -> set[str]:
        """Return the checkpoints from which other trials were copied. Only population-based training copies trials."""
        return set(store.source_checkpoints(self._experiment_id)) if self._is_copied else set()

    def decision(self, store: WorkerStore, after: int) -> TrialDecision:
        """Return the decision of the runner; raise StoreError if the trial was started again elsewhere.

        A runner that was suspended and has lost its lease cannot stop its trials, so they must find out themselves.
        """
        decision = store.decision(self.trial_id, after)
        if decision.allocation != self.key:
            raise StoreError(f"trial {self.trial_id} was started again elsewhere: this process must end")
        return decision

    def close(self) -> None:
        """Close the socket for wake-ups."""
        self._wakeups.close()


def managed_trial(
    info: ClusterInfo | None, env: Mapping[str, str] = os.environ, *, is_chief: bool = True
) -> Managed | None:
    """Return the connection to the runner that started this worker, or None in a standalone run."""
    # Only the runner sets this variable.
    if info is None or not env.get("DET_RUNNER"):
        return None
    searcher = StoredConfig(info.trial._config).searcher
    return Managed(
        key=info.allocation_id,
        experiment_id=info.trial.experiment_id,
        trial_id=info.trial.trial_id,
        steps_completed=info.trial._steps_completed,
        metric=searcher.metric,
        smaller_is_better=bool(searcher.smaller_is_better),
        time_metric=info.trial._time_metric,
        is_copied=searcher.method.copies_trials,
        wakeups=WorkerWakeups((env.get("DET_DOORBELL") or None) if is_chief else None, info.allocation_id),
    )
