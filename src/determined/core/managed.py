"""A trial that a runner started: where its rows belong, and when it waits for the runner's decision."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from determined.core.doorbell import Doorbell
from determined.errors import StoreError
from determined.info import ClusterInfo
from determined.store.base import Store
from determined.store.writer import Writer

if TYPE_CHECKING:
    from determined.store.experiment_records import Decision

_SECONDS_BETWEEN_LOOKS = 1.0  # at the store, should the bell be lost


class Managed:
    """A worker's part in a search; only the chief waits for decisions.

    Trials are compared at certain times: lengths in the searcher's `time_metric`. The one that a trial comes to next
    is its goal. A validation there is a question, and training goes on when it is answered.
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
        doorbell: Doorbell,
    ) -> None:
        self.key = key
        self.trial_id = trial_id
        self.steps_completed = steps_completed  # of the checkpoint that the runner wants it to go on from
        self.metric = metric
        self.time_metric = time_metric
        self._experiment_id = experiment_id
        self._smaller_is_better = smaller_is_better
        self._is_copied = is_copied
        self._doorbell = doorbell
        self._goal: float = -math.inf  # not known yet: the first validation asks for it

    def wait_if_due(self, writer: Writer, time: float | None, look_for_requests: Callable[[Store], bool]) -> None:
        """Return at once on the way to the goal; there, when it was moved on or somebody wants the trial to stop."""
        if time is None or time < self._goal:
            return
        asked = False
        while True:
            # The goal first: what is decided together is never seen as a new goal without its request.
            self._goal, stopping = writer.ask(lambda store: (self._goal_now(store), look_for_requests(store)))
            if stopping or time < self._goal:
                return
            if not asked:
                asked = True
                self._doorbell.ring()
            self._doorbell.wait(_SECONDS_BETWEEN_LOOKS)

    def best_validation(self, writer: Writer) -> float | None:
        """Of all trials of the experiment."""
        metric = self.metric
        if metric is None:
            return None
        return writer.ask(
            lambda store: store.experiments.best_validation(self._experiment_id, metric, self._smaller_is_better)
        )

    def checkpoints_in_use(self, writer: Writer) -> set[str]:
        """Those that trials were copied from. Only in populations trials become others; elsewhere nobody asks."""
        if not self._is_copied:
            return set()
        trials = writer.ask(lambda store: store.experiments.trials(self._experiment_id))
        return {trial.source for trial in trials if trial.source is not None}

    def check_is_ours(self, store: Store) -> None:
        """A runner that was stopped and lost its experiment cannot end its trials: they must see it themselves."""
        self._decision(store)

    def close(self) -> None:
        self._doorbell.close()

    def _goal_now(self, store: Store) -> float:
        decision = self._decision(store)
        return math.inf if decision.goal is None else decision.goal

    def _decision(self, store: Store) -> Decision:
        decision = store.experiments.decision(self.trial_id)
        if decision.allocation != self.key:
            raise StoreError(f"trial {self.trial_id} was started again elsewhere: this process has nothing to do here")
        return decision


def managed_trial(
    info: ClusterInfo | None, env: Mapping[str, str] = os.environ, *, is_chief: bool = True
) -> Managed | None:
    """Return what the runner wants to know from this worker, or None in a run that a person started."""
    if info is None or not env.get("DET_RUNNER"):
        return None
    searcher = info.trial._config.get("searcher") or {}
    return Managed(
        key=info.allocation_id,
        experiment_id=info.trial.experiment_id,
        trial_id=info.trial.trial_id,
        steps_completed=info.trial._steps_completed,
        metric=searcher.get("metric"),
        smaller_is_better=bool(searcher.get("smaller_is_better", True)),
        time_metric=info.trial._time_metric,
        is_copied=searcher.get("name") == "pbt",
        doorbell=Doorbell((env.get("DET_DOORBELL") or None) if is_chief else None, info.allocation_id),
    )
