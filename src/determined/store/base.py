"""What every store offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

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
    RequestKind,
    Row,
    Run,
    SharedMetric,
)

if TYPE_CHECKING:  # what belongs to experiments is loaded when a store is opened, not by every training at its import
    from determined.store.experiments import Experiments
    from determined.store.lineage import Lineage
    from determined.store.outputs import Outputs
    from determined.store.publishing import Publishing
    from determined.store.queueing import Queue
    from determined.store.registry import Registry
    from determined.store.upkeep import Upkeep


class Store(Protocol):
    """Rows of runs. A call returns when what it wrote is committed; calling again with the same rows changes nothing.

    A store is used by one thread at a time.
    """

    @property
    def place(self) -> str:
        """Where it is, as it may be shown."""
        ...

    @property
    def experiments(self) -> Experiments:
        """Those with a search, and a list of all."""
        ...

    @property
    def registry(self) -> Registry:
        """Models, and the checkpoints that are their versions."""
        ...

    @property
    def lineage(self) -> Lineage:
        """Which runs made use of which checkpoints."""
        ...

    @property
    def publishing(self) -> Publishing:
        """Checkpoints between the moment they appear in their storage and the row that records them."""
        ...

    @property
    def outputs(self) -> Outputs:
        """Files that trials upload as results, beside their checkpoints."""
        ...

    @property
    def queue(self) -> Queue:
        """Experiments that wait for their turn on a machine."""
        ...

    @property
    def upkeep(self) -> Upkeep:
        """What people change about experiments and checkpoints afterwards, and their end."""
        ...

    def begin_attempt(self, start: AttemptStart) -> BegunAttempt:
        """Continue the trial that the checkpoint is of, or the run's own; else make an experiment with one trial.

        With an allocation the trial is the one that it names, and no other. A trial whose newest attempt still lives,
        or that a search runs, is left alone: the new one names it as its parent. Metrics after the step at which the
        attempt begins are archived.

        A run that names its trial goes on with it, after the newest checkpoint; as long as the trial lives elsewhere
        it is refused.
        """
        ...

    def write(self, rows: Sequence[Row]) -> None:
        """Keep all of them, or none.

        A metric takes the place of what an earlier attempt reported for the same group and step; what the same
        attempt reported is kept beside it.
        """
        ...

    def runs(self, limit: int = 1000) -> list[Run]:
        """The newest first."""
        ...

    def attempts(self, trial_id: int) -> list[Attempt]:
        """The oldest first."""
        ...

    def metrics(self, trial_id: int, group: str | None = None, *, archived: bool = False) -> list[Metric]:
        """Return what counts, in the order of the reports, one row for each rank that reported for a group and step.

        Of a name that several ranks reported for the same group and step, only the lowest rank's value is there.
        `archived` returns every row as it is stored, also those that a later attempt went back behind.
        """
        ...

    def find_metric(self, trial_id: int, group: str, steps_completed: int, rank: int = 0) -> Metric | None:
        """Return what a rank reported for one step, archived or not."""
        ...

    def claim_shared_metric(self, rows: Sequence[MetricRow]) -> SharedMetric | None:
        """Return a metric of these rows, which are stored, that another rank of the attempt reported as well.

        Of all processes that ask for an attempt only one gets an answer, so that one warning is given.
        """
        ...

    def newest_attempt(self, run_key: str) -> tuple[str, BegunAttempt] | None:
        """Return the newest attempt whose key is `<run_key>-<number>`, with its key."""
        ...

    def metadata(self, trial_id: int) -> dict[str, Any]:
        """Return what all ranks said about a trial in their own words; of a shared name the lowest rank's value."""
        ...

    def samples(self, trial_id: int, group: str | None = None) -> list[Metric]:
        """What was reported without a step, in the order of the reports."""
        ...

    def checkpoints(self, trial_id: int) -> list[Checkpoint]:
        """The newest first."""
        ...

    def latest_checkpoints(
        self, identity: str | None = None, program: str | None = None, limit: int = 100
    ) -> list[Checkpoint]:
        """Return checkpoints of standalone runs that are not deleted: newest run first, and newest first in each run.

        With `identity`, those that an attempt with this identity saved. Attempts of earlier versions have none: with
        `program`, those of this program are included.
        """
        ...

    def identities(self, program: str) -> list[str]:
        """Return the identities of the attempts of this program that saved checkpoints, sorted."""
        ...

    def set_checkpoint_deleted(self, uuid: str) -> None:
        """Its files are gone: nothing is left of it. One that is marked and has files left is still to be removed."""
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
        """Return the wanted lines with a greater id, in order: at most `limit` of them, or the last `tail`."""
        ...

    def newest_log(self, trial_id: int) -> int:
        """Return the id of the trial's newest line; 0 if it has none."""
        ...

    def add_request(self, trial_id: int, kind: RequestKind) -> int:
        """Ask a trial for something; returns the number of the request."""
        ...

    def requests(self, trial_id: int, after: int = 0) -> list[Request]:
        """Those with a greater id, in order."""
        ...

    def close(self) -> None: ...
