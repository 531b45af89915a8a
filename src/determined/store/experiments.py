"""The `Experiments` interface: queries about experiments with a search, which one runner at a time may change."""

from __future__ import annotations

from typing import Any, Protocol

from determined.store.experiment_records import (
    ALL_EXPERIMENTS,
    Change,
    Decision,
    Experiment,
    ExperimentFilter,
    ExperimentRequest,
    ExperimentRequestKind,
    JournalEntry,
    Lease,
    NewExperiment,
    Trial,
)
from determined.store.process import Process
from determined.store.records import Checkpoint, Metric

ListOfExperiments = list[Experiment]
ListOfIds = list[int]


class Experiments(Protocol):
    """The experiments of a store.

    Calls may be repeated if their answer was lost: creating or committing the same thing again changes nothing and
    returns the same answer, acquiring again returns a newer lease, and a repeated request is a second request. An
    unknown id raises a `StoreError` that names it.
    """

    def create(self, new: NewExperiment) -> int:
        """Create an experiment and return its id."""
        ...

    def acquire(self, experiment_id: int, process: Process, *, watch_seconds: float = 20.0) -> Lease:
        """Acquire the lease of an experiment, or raise `ExperimentHeld` if another process is running it.

        The lease is taken immediately if it has no holder, or the holder is this process or a dead process on this
        machine. Otherwise the holder's heartbeat is watched: if it advances, the holder is alive; if it has not
        advanced for `watch_seconds`, the experiment is taken over.
        """
        ...

    def heartbeat(self, lease: Lease) -> None:
        """Advance the heartbeat of a lease. Raise `LeaseLost` if another process has taken over."""
        ...

    def release(self, lease: Lease) -> None:
        """Give up a lease. A lease that was already lost is ignored."""
        ...

    def commit(self, lease: Lease, change: Change) -> list[int]:
        """Write a change in one transaction and return the ids of its new trials.

        Raise `LeaseLost` if another process has taken over. A commit also counts as a heartbeat.
        """
        ...

    def get(self, experiment_id: int) -> Experiment: ...

    def trials(self, experiment_id: int) -> list[Trial]:
        """Return the trials of an experiment, ordered by number."""
        ...

    def trial(self, trial_id: int) -> Trial: ...

    def journal(self, experiment_id: int, after: int = 0) -> list[JournalEntry]:
        """Return the journal entries with a sequence number above `after`, in order."""
        ...

    def snapshot(self, experiment_id: int) -> tuple[int, dict[str, Any]] | None:
        """Return the newest searcher snapshot and the sequence number of the last entry that it includes, or None."""
        ...

    def validations(self, trial_id: int, after: tuple[int, int] = (0, -1)) -> list[Metric]:
        """Return the trial's validations that are not archived, in the order they were reported.

        `after` is the attempt and sequence number of the last validation that the caller already has.
        """
        ...

    def best_validation(self, experiment_id: int, metric: str, smaller_is_better: bool) -> float | None:
        """Return the best value of a validation metric over all trials, or None.

        Values that are not finite are ignored.
        """
        ...

    def checkpoints(self, experiment_id: int) -> list[Checkpoint]:
        """Return the checkpoints of all trials of an experiment, newest first."""
        ...

    def has_results(self, experiment_id: int) -> bool:
        """Return whether any trial has reported a metric or saved a checkpoint, even one that was deleted since."""
        ...

    def request(self, experiment_id: int, kind: ExperimentRequestKind, trial_id: int | None = None) -> int:
        """Add a request to the runner of an experiment and return the id of the request."""
        ...

    def cancel_paused(self, experiment_id: int, trial_id: int | None = None) -> list[int]:
        """Cancel the interrupted trials of a standalone experiment, or one of them, and return the ids of those.

        No process works on them, so nothing has to be asked to stop.
        """
        ...

    def requests(self, experiment_id: int, after: int = 0) -> list[ExperimentRequest]:
        """Return the requests to an experiment with an id above `after`, in order."""
        ...

    def decision(self, trial_id: int) -> Decision:
        """Return the runner's newest decision about a trial: its goal and whether it must stop."""
        ...

    def latest_validations(self, experiment_id: int) -> dict[int, dict[str, Any]]:
        """Return the metrics of the newest validation of each trial that has one, by the trial's id."""
        ...

    def best_of_trials(self, experiment_id: int, metric: str, smaller_is_better: bool) -> dict[int, float]:
        """Return the best value of any validation metric for each trial that reported one, by the trial's id.

        All validations of the experiment are read; the best values of the searcher metric are in the trials' rows.
        """
        ...

    def ids_between(self, first: int, last: int) -> ListOfIds:
        """Return the ids of the experiments from `first` to `last`, in order."""
        ...

    def trial_ids_between(self, first: int, last: int) -> ListOfIds:
        """Return the ids of the trials from `first` to `last`, in order."""
        ...

    def list(
        self,
        *,
        limit: int = 200,
        offset: int = 0,
        archived: bool = False,
        only: ExperimentFilter = ALL_EXPERIMENTS,
    ) -> ListOfExperiments:
        """Return experiments, standalone runs included, the newest first; `archived` adds archived ones."""
        ...
