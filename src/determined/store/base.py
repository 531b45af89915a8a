"""The `Store` interface: every read and write that the rest of the library makes on the database of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from determined.stop_request import StopRequest
from determined.store.records import (
    ALL_LINES,
    Attempt,
    AttemptStart,
    BegunAttempt,
    Checkpoint,
    Log,
    LogFilter,
    Metric,
    MetricRow,
    Request,
    Row,
    Run,
    SharedMetric,
)

# Imported for annotations only: a training script that imports the library should not pay for modules that are needed
# once a store is opened.
if TYPE_CHECKING:
    from determined.store.experiments import Experiments
    from determined.store.lineage import Lineage
    from determined.store.outputs import Outputs
    from determined.store.publishing import Publishing
    from determined.store.queue_records import Queue
    from determined.store.registry import Registry
    from determined.store.upkeep import Upkeep


class Store(Protocol):
    """The database of runs, as one connection.

    A call returns after its changes are committed. Writing the same rows again changes nothing, so a call whose answer
    was lost can be retried. A store may be used by one thread at a time.
    """

    @property
    def place(self) -> str:
        """Return the location of the store for messages, without a password."""
        ...

    @property
    def experiments(self) -> Experiments:
        """Return the queries about experiments, including experiments with a search."""
        ...

    @property
    def registry(self) -> Registry:
        """Return the queries about models and the checkpoints registered as their versions."""
        ...

    @property
    def lineage(self) -> Lineage:
        """Return the queries about which runs used which checkpoints."""
        ...

    @property
    def publishing(self) -> Publishing:
        """Return the queries about checkpoints that are in their storage but not yet recorded as a row."""
        ...

    @property
    def outputs(self) -> Outputs:
        """Return the queries about files that trials upload as results in addition to their checkpoints."""
        ...

    @property
    def queue(self) -> Queue:
        """Return the queries about experiments that wait for slots on a machine."""
        ...

    @property
    def upkeep(self) -> Upkeep:
        """Return the queries that edit or delete experiments and checkpoints after they were created."""
        ...

    def begin_attempt(self, start: AttemptStart) -> BegunAttempt:
        """Record the start of an attempt and return its trial, number and metadata.

        With an allocation, the attempt belongs to the trial that the allocation names. Otherwise the trial that saved
        the given checkpoint is continued, or the trial that the same run worked on before; if there is neither, a new
        experiment with one trial is created. A trial whose newest attempt is still running, or that belongs to a
        search, is not continued: the new trial records it as its parent. Metrics after the start step of the attempt
        are archived.

        A run that names its trial continues that trial from its newest checkpoint. `StoreError` if another process is
        running the trial.
        """
        ...

    def write(self, rows: Sequence[Row]) -> None:
        """Write all rows in one transaction.

        A metric replaces the report of an earlier attempt for the same group, step and rank; reports of the same
        attempt are merged.
        """
        ...

    def runs(self, limit: int = 1000) -> list[Run]:
        """Return the trials with their newest attempts, newest first."""
        ...

    def attempts(self, trial_id: int) -> list[Attempt]:
        """Return the attempts of a trial, oldest first."""
        ...

    def metrics(self, trial_id: int, group: str | None = None, *, archived: bool = False) -> list[Metric]:
        """Return the reports of a trial in the order they were made, one for each group, step and rank.

        If several ranks reported the same metric for the same group and step, only the value of the lowest rank is
        returned. With `archived`, every stored row is returned unchanged, including the archived ones (steps that a
        later attempt repeated).
        """
        ...

    def find_metric(self, trial_id: int, group: str, steps_completed: int, rank: int = 0) -> Metric | None:
        """Return the report of one rank for a group and step, archived or not, or None."""
        ...

    def claim_shared_metric(self, rows: Sequence[MetricRow]) -> SharedMetric | None:
        """Return a metric in these stored rows that another rank of the attempt also reported, or None.

        Only one caller per attempt gets a result, so the warning about it is logged once.
        """
        ...

    def newest_attempt(self, run_key: str) -> tuple[str, BegunAttempt] | None:
        """Return the newest attempt whose key is `<run_key>-<number>`, together with its key, or None."""
        ...

    def metadata(self, trial_id: int) -> dict[str, Any]:
        """Return the metadata that the ranks reported for a trial, merged. For a shared key the lowest rank's value is
        taken.
        """
        ...

    def samples(self, trial_id: int, group: str | None = None) -> list[Metric]:
        """Return the metrics that a trial reported without a step, in the order they were made."""
        ...

    def checkpoints(self, trial_id: int) -> list[Checkpoint]:
        """Return the checkpoints of a trial, newest first."""
        ...

    def latest_checkpoints(
        self, identity: str | None = None, program: str | None = None, limit: int = 100
    ) -> list[Checkpoint]:
        """Return the checkpoints of standalone runs that are not deleted: newest run first, and newest first within a
        run.

        With `identity`, only checkpoints saved by attempts with this identity. Attempts recorded by older versions have
        no identity; `program` adds the checkpoints that such attempts of this program saved.
        """
        ...

    def identities(self, program: str) -> list[str]:
        """Return the identities of the attempts of this program that saved checkpoints, sorted."""
        ...

    def set_checkpoint_deleted(self, uuid: str) -> None:
        """Record that all files of a checkpoint were deleted.

        A checkpoint that is marked as deleted but still lists files is one whose deletion has not finished.
        """
        ...

    def has_reports(self, trial_id: int, attempts: set[int]) -> bool:
        """Return whether one of these attempts reported a metric, saved a checkpoint or uploaded an output."""
        ...

    def logs(
        self,
        trial_id: int,
        after: int = 0,
        limit: int | None = None,
        *,
        only: LogFilter = ALL_LINES,
        tail: int | None = None,
    ) -> list[Log]:
        """Return the log lines of a trial that match the filter and have an id above `after`, in order.

        At most `limit` lines, or the last `tail`.
        """
        ...

    def newest_log(self, trial_id: int) -> int:
        """Return the id of the trial's newest line; 0 if it has none."""
        ...

    def add_request(self, trial_id: int, kind: StopRequest) -> int:
        """Add a request to a trial (for example to stop) and return the id of the request."""
        ...

    def requests(self, trial_id: int, after: int = 0) -> list[Request]:
        """Return the requests to a trial with an id above `after`, in order."""
        ...

    def close(self) -> None: ...
