"""What a store offers for experiments with a search: rows that one runner at a time may change."""

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
    """Calls may be repeated when their answer was lost.

    To create or to commit the same thing again changes nothing, and gives the same answer; to acquire again gives a
    newer lease; a request that is made again is another request. An id that is not there is a `StoreError` that names
    it.
    """

    def create(self, new: NewExperiment) -> int:
        """Returns its id."""
        ...

    def acquire(self, experiment_id: int, process: Process, *, watch_seconds: float = 20.0) -> Lease:
        """Become the one who runs it, or raise `ExperimentHeld`.

        That is at once when nobody has it, or when its holder is this process, or a dead one of this machine.
        Otherwise the holder's heartbeat is watched: when it moves the holder is alive, and when it has not moved for
        that many seconds the experiment is taken over.
        """
        ...

    def heartbeat(self, lease: Lease) -> None:
        """Show that the holder is alive. `LeaseLost` when another one has taken over."""
        ...

    def release(self, lease: Lease) -> None:
        """Nobody runs it from now on; a lease that was lost is no matter."""
        ...

    def commit(self, lease: Lease, change: Change) -> list[int]:
        """Write all of it, or nothing; `LeaseLost` when another holder has taken over. Returns the new trials' ids.

        It counts as a heartbeat.
        """
        ...

    def get(self, experiment_id: int) -> Experiment: ...

    def trials(self, experiment_id: int) -> list[Trial]:
        """By number."""
        ...

    def trial(self, trial_id: int) -> Trial: ...

    def journal(self, experiment_id: int, after: int = 0) -> list[JournalEntry]:
        """Entries with a greater sequence number, in order."""
        ...

    def snapshot(self, experiment_id: int) -> tuple[int, dict[str, Any]] | None:
        """The search's newest state, after the sequence number of the last entry that it includes."""
        ...

    def validations(self, trial_id: int, after: tuple[int, int] = (0, -1)) -> list[Metric]:
        """Those that are not archived, in the order of the reports, after that attempt and sequence number."""
        ...

    def best_validation(self, experiment_id: int, metric: str, smaller_is_better: bool) -> float | None:
        """Over all trials; what is no finite number never counts."""
        ...

    def checkpoints(self, experiment_id: int) -> list[Checkpoint]:
        """Those of all trials, the newest first."""
        ...

    def has_results(self, experiment_id: int) -> bool:
        """Return whether any trial has reported a metric or saved a checkpoint, even one that was deleted since."""
        ...

    def request(self, experiment_id: int, kind: ExperimentRequestKind, trial_id: int | None = None) -> int:
        """Ask whoever runs it for something; returns the number of the request."""
        ...

    def requests(self, experiment_id: int, after: int = 0) -> list[ExperimentRequest]:
        """Those with a greater id, in order."""
        ...

    def decision(self, trial_id: int) -> Decision:
        """What the runner last decided about a trial."""
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
